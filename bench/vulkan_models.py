"""Models of `bench.models` on Vulkan alone, and shared out among Vulkan, XNNPACK and the CPU's kernels.

    python -m bench.vulkan_models [MODEL ...] [--write]

Each is exported without bounds and run at all its sizes, growing and then shrinking, in a poisoned arena, with the
validation layer; every result is compared with eager PyTorch. Each row is measured in a process of its own and kept in
out/vulkan_models.json: a run of some models replaces theirs.
"""

import argparse
import gc
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.coverage import LARGEST_ERROR, error_of
from bench.machine import describe
from bench.models import MODELS
from bench.rows import keep_rows, measured_apart, printed
from bench.sections import table, write_sections

__all__ = ["MIXED", "WAYS", "Row", "cover", "instructions_left", "lowered"]

KEPT = Path("out/vulkan_models.json")
SECONDS = 900
TARGET = 1.05
WAYS = ("alone", "mixed")
LINEAR = ("aten.linear.default", "aten.addmm.default", "aten.mm.default")
CONVOLUTION = ("aten.convolution.default", *LINEAR)
LAYER_NORM = ("aten.layer_norm.default", "aten.native_layer_norm.default")

MIXED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "espcn": (CONVOLUTION, ("aten.tanh.default",)),
    "mobilenet_v2": (CONVOLUTION, ("aten.mean.dim",)),
    "resnet": (CONVOLUTION, ("aten.mean.dim",)),
    "unet": (CONVOLUTION, ("aten.cat.default",)),
    "segformer": (LINEAR, LAYER_NORM),
    "vit": (LINEAR, LAYER_NORM),
    "bert": (LINEAR, LAYER_NORM),
    "llama": (LINEAR, ("aten.embedding.default",)),
    "whisper_encoder": (LINEAR, LAYER_NORM),
}
"""By model the operators that a mixed export leaves to XNNPACK, and those that it leaves to the CPU; Vulkan has all
others that it knows."""

TITLE = "Models on Vulkan"
NOTES = f"""\
Models of `bench/models`, exported without bounds on their sizes for Vulkan alone, and mixed: matrix products or
convolutions on XNNPACK, some operators on the CPU's kernels, the rest on Vulkan. Run at all their sizes, growing and
then shrinking, in a poisoned arena, with the validation layer. `left on the CPU`: instructions of the program that no
delegate took, those that read a size not counted. `error`: largest difference from eager PyTorch over its largest
magnitude, over all runs (at most {LARGEST_ERROR:.0e}; integers are equal). `ratio`: the worst of arena / lower bound,
scratch of the delegates counted; `scratch ratio`: the worst of scratch / lower bound inside a Vulkan delegate (target:
at most {TARGET} both)."""


@dataclass
class Row:
    """What became of one model in one way.

    Attributes
    ----------
    name, way : str
        The model; "alone" or "mixed".
    vulkan, xnnpack : int
        Delegates.
    left : dict of str to int
        Instructions left on the CPU by operator.
    sizes : int
        Distinct sizes that ran.
    error, ratio, scratch_ratio : float
        The worst of all runs.
    failure : str
        Empty if all is well.
    """

    name: str
    way: str
    vulkan: int
    xnnpack: int
    left: dict[str, int]
    sizes: int = 0
    error: float = 0.0
    ratio: float = 1.0
    scratch_ratio: float = 1.0
    failure: str = ""


def lowered(model: Any, way: str, name: str) -> Any:
    """Export a model of `MODELS`.

    Parameters
    ----------
    model : Model
        As made.
    way : str
        One of `WAYS`.
    name : str
        Of the model, by which `MIXED` says what goes where.
    """
    from executorch.backends.xnnpack.partition.config import gemm_configs
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    import etarena
    from etarena.quiet import quiet

    partitioners: list[Any] = [etarena.VulkanPartitioner()]
    if way == "mixed":
        to_xnnpack, to_cpu = MIXED[name]
        products = [getattr(gemm_configs, f"{kind}Config") for kind in ("Addmm", "Convolution", "Linear", "MM")]
        partitioners = [etarena.VulkanPartitioner(skip=[*to_xnnpack, *to_cpu]), XnnpackPartitioner(configs=products)]
    with quiet():
        return etarena.export(
            model.module,
            model.inputs(model.example),
            dynamic_shapes=model.dynamic_shapes(),
            partitioners=partitioners,
        )


def instructions_left(buffer: bytes) -> Counter[str]:
    """Instructions of a program that run on the CPU by operator, without those that compute sizes."""
    from executorch.exir._serialize._program import deserialize_pte_binary
    from executorch.exir.schema import KernelCall

    (plan,) = deserialize_pte_binary(buffer).program.execution_plan
    names = [f"{operator.name.replace('::', '.')}.{operator.overload or 'default'}" for operator in plan.operators]
    calls = [step.instr_args for chain in plan.chains for step in chain.instructions]
    found = Counter(names[call.op_index] for call in calls if isinstance(call, KernelCall))
    return Counter({name: n for name, n in found.items() if not name.startswith(("aten.sym_", "executorch_prim."))})


def cover(name: str, way: str) -> Row:
    """Export, load and run one model in this process."""
    import etarena
    from etarena import vulkan

    model = MODELS[name].make()
    exported = lowered(model, way, name)
    delegates = Counter(delegate.id for delegate in exported.plan().delegates)
    left = dict(instructions_left(exported.buffer))
    row = Row(name, way, delegates["EtarenaVulkan"], delegates["XnnpackBackend"], left)
    device = vulkan.Device.create(validation=True)
    _run(row, model, etarena.load(exported.buffer, etarena.Arena(name=name, poison=True), vulkan=device).method())
    if device.messages:
        row.failure = f"validation: {device.messages[0]}"
    elif way == "mixed" and not (row.vulkan and row.xnnpack and row.left):
        row.failure = "not all three have a part"
    elif max(row.ratio, row.scratch_ratio) > TARGET:
        row.failure = row.failure or f"more than {TARGET} of the lower bound"
    return row


def _run(row: Row, model: Any, method: Any) -> None:
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    for size in [*model.sizes, *reversed(model.sizes[:-1])]:
        inputs = model.inputs(size)
        with torch.no_grad():
            wanted = tree_leaves(model.module(*tree_map(torch.clone, inputs)))
        got = method.execute(inputs)
        row.error = max(row.error, *(error_of(*pair) for pair in zip(got, wanted, strict=True)))
        stats = method.last_run
        row.ratio = max(row.ratio, stats.arena_bytes / max(stats.lower_bound_bytes, 1))
        if not row.error <= LARGEST_ERROR:
            row.failure = f"wrong result at size {size}: error {row.error:.1e}"
            return
    row.sizes = len(set(model.sizes))
    row.scratch_ratio = _scratch_ratio()


def _scratch_ratio() -> float:
    """The worst of all Vulkan delegates of this process, at all shapes that they ran at."""
    from etarena.delegates.vulkan.bound import BoundGraph

    graphs = [found for found in gc.get_objects() if type(found) is BoundGraph]
    return max((graph.scratch_bytes / graph.lower_bound for graph in graphs if graph.lower_bound), default=1.0)


def apart(name: str, way: str) -> Row:
    """Run `cover` in another process; a crash or too much time is a failure of the row."""
    row = Row(name, way, 0, 0, {})
    return measured_apart(row, "bench.vulkan_models", "--one", f"{name}/{way}", seconds=SECONDS)


def section(rows: Sequence[Row]) -> str:
    """The section of RESULTS.md."""
    heads = ("model", "way", "Vulkan", "XNNPACK", "left on the CPU", "sizes", "error", "ratio", "scratch ratio")
    command = "```\npython -m bench.vulkan_models --write\n```"
    cells = [_cells(row) for row in rows if not row.failure]
    return "\n\n".join(
        [f"## {TITLE}", NOTES, command, table(("", ""), describe()), table(heads, cells), *_failures(rows)]
    )


def _cells(row: Row) -> tuple[str, ...]:
    left = ", ".join(f"{n} {operator.removeprefix('aten.')}" for operator, n in row.left.items()) or "none"
    ratios = f"{row.ratio:.4f}", f"{row.scratch_ratio:.4f}"
    return row.name, row.way, str(row.vulkan), str(row.xnnpack), left, str(row.sizes), f"{row.error:.1e}", *ratios


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    failed = [(row.name, row.way, row.failure.replace("|", "/")[:200]) for row in rows if row.failure]
    if failed:
        yield "These fall short:"
        yield table(("model", "way", "why"), failed)


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MIXED)}; all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--one", metavar="MODEL/WAY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if arguments.one:
        print(printed(cover(*arguments.one.split("/"))))
        return
    unknown = sorted(set(arguments.models) - set(MIXED))
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MIXED)}")
    rows = []
    order = [(name, way) for name in MIXED for way in WAYS]
    for name in arguments.models or MIXED:
        for way in WAYS:
            rows.append(apart(name, way))
            known = keep_rows(rows, KEPT, Row, lambda row: (row.name, row.way), order)
            print(" | ".join((*_cells(rows[-1]), rows[-1].failure)), flush=True)
            if arguments.write:
                write_sections(section(known))
    sys.exit(any(row.failure for row in rows))


if __name__ == "__main__":
    main()
