"""A lowered program read operator by operator: where the model calls each, what keeps it off a delegate or a kernel."""

import re
import sysconfig
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import executorch
import torch
from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.backend.utils import WhyNoPartition
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.export import ExportedProgram
from torch.fx import Node

from .discoveries import all_nodes, operator_name
from .joint_partitioning import asked_for
from .kernels import missing_kernel
from .legalize import ReplaceMissingKernels

__all__ = ["Reasons", "Site", "Taken", "heard_reasons", "source_line", "survey", "taken", "traceback_line"]

Reasons = dict[tuple[str, str], list[str]]
"""What partitioners said against a node, by the names of the method and the node."""

FRAME = re.compile(r'File "(.+?)", line (\d+), in .*\n\s*(.*)')
LIBRARIES = tuple(
    str(folder) for package in (torch, executorch) for folder in package.__path__
)  # their frames are not the model's
HERE = str(Path(__file__).parent)
STANDARD_LIBRARY = sysconfig.get_path("stdlib")


@dataclass(frozen=True)
class Site:
    """One call of an operator that no delegate took.

    Parameters
    ----------
    operator : str
        Its name, such as ``aten::relu``.
    node : str
        Name of the graph node.
    source : str
        File, line and text of the model's code that calls it; "" if unknown.
    missing : str
        Name of the kernel that the runtime lacks; "" if it has one.
    reasons : tuple of str
        Why each partitioner left it, as far as it says so.
    tells : bool
        Whether a size becomes known here.
    """

    operator: str
    node: str
    source: str
    missing: str = ""
    reasons: tuple[str, ...] = ()
    tells: bool = False


@dataclass(frozen=True)
class Taken:
    """One call of an operator that a delegate took.

    Parameters
    ----------
    backend : str
        The delegate's.
    operator : str
        Its name, such as ``aten::relu``.
    reasons : tuple of str
        Why partitioners asked before left it, as far as they say so.
    """

    backend: str
    operator: str
    reasons: tuple[str, ...] = ()


def survey(
    method: str,
    program: ExportedProgram,
    partitioners: Sequence[Partitioner],
    heard: Reasons,
    names: Mapping[str, str],
) -> list[Site]:
    """Every call of an operator in a method after partitioning, bodies of control flow included, in graph order.

    `names` has the user's names of torch's symbols, for what partitioners said.
    """
    return [
        Site(
            operator_name(node) if hasattr(node.target, "_schema") else getattr(node.target, "__name__", ""),
            node.name,
            source_line(node.meta.get("stack_trace") or ""),
            "" if node.target in ReplaceMissingKernels.REPLACED else missing_kernel(node.target),
            tuple(_renamed(reason, names) for reason in _reasons(method, node, partitioners, heard)),
            bool(node.meta.get("unbacked_bindings")),
        )
        for node in all_nodes(program.graph_module)
        if node.op == "call_function"
    ]


def taken(method: str, program: ExportedProgram, partitioners: Sequence[Partitioner]) -> list[Taken]:
    """Every call of an operator that a delegate took, after partitioning."""
    return [
        Taken(module.backend_id, operator_name(node), tuple(_kept_reasons(method, node, partitioners)))
        for module in program.graph_module.modules()
        if isinstance(module, LoweredBackendModule)
        for node in all_nodes(module.original_module.graph_module)
        if node.op == "call_function" and hasattr(node.target, "_schema")
    ]


def _kept_reasons(method: str, node: Node, partitioners: Sequence[Partitioner]) -> Iterator[str]:
    """What those partitioners say that keep their reasons by method and node, as `VulkanPartitioner` does."""
    for partitioner in partitioners:
        said = getattr(partitioner, "reasons", {}).get(method, {}).get(node.name)
        if said is not None:
            yield f"{type(partitioner).__name__}: {said}"


def _reasons(method: str, node: Node, partitioners: Sequence[Partitioner], heard: Reasons) -> Iterator[str]:
    yield from heard.get((method, node.name), ())
    yield from _kept_reasons(method, node, partitioners)
    for partitioner in partitioners:
        known = getattr(partitioner, "target_partitioner_configs", None)  # of those made of configurations
        name = getattr(node.target, "__name__", None)
        if known is not None and name is not None and format_target_name(name) not in known:
            yield f"{type(partitioner).__name__} does not know this operator"


def _renamed(reason: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), reason)


@contextmanager
def heard_reasons() -> Iterator[Reasons]:
    """Within the block, note what partitioners tell ExecuTorch's `WhyNoPartition` about nodes that they leave."""
    heard: Reasons = {}

    def note(_self: WhyNoPartition, node: Node, reason: str) -> None:
        said = heard.setdefault((asked_for(), node.name), [])
        if reason not in said:
            said.append(reason)

    with mock.patch.object(WhyNoPartition, "__call__", note):
        yield heard


def source_line(trace: str) -> str:
    """The innermost line of the model's own code in a stack trace, as ``file:line: text``; "" if there is none."""
    frames = [(file, line, text.strip()) for file, line, text in FRAME.findall(trace)]
    own = [frame for frame in frames if not _is_library(frame[0])] or frames
    if not own:
        return ""
    file, line, text = own[-1]
    return f"{file}:{line}: {text}"


def traceback_line(error: BaseException) -> str:
    """The same for the innermost model code that an exception, or one of its causes, came through."""
    found = ""
    cause: Any = error
    while cause is not None:
        frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if _is_model(frame.filename)]
        if frames:
            found = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"
        cause = cause.__cause__
    return found


def _is_library(file: str) -> bool:
    return file.startswith(LIBRARIES)


def _is_model(file: str) -> bool:
    """Whether code is neither a library's nor ours; the caller of `explain` is above where the traceback begins."""
    is_standard = file.startswith(STANDARD_LIBRARY) and "site-packages" not in file
    return not (is_standard or _is_library(file) or file.startswith((HERE, "<")))
