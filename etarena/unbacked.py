"""Tracing and lowering of programs in which data tells sizes: what torch calls unbacked symbols.

Within `data_dependent_tracing`, torch describes such operators as the CPU kernels run them: ``nonzero`` writes row by
row (torch's own description is transposed), and ``slice_copy`` with ends that only data tells has the size that follows
from them, where torch gives up.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import executorch.exir.passes
import sympy
import torch
import torch.utils._pytree as pytree
from executorch.exir.pass_base import PassBase, PassResult
from executorch.exir.passes import ToOutVarPass
from torch._subclasses.fake_impls import op_implementations_dict
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from .traced import Size, expression

__all__ = ["ASSERTED", "TOLD", "OutVariants", "RecordAsserts", "data_dependent_tracing", "is_unbacked", "told_sizes"]

aten = torch.ops.aten
TOLD, ASSERTED = "etarena_told", "etarena_asserted"


def is_unbacked(size: object) -> bool:
    """Whether data tells a size or symbol, at least in part."""
    return bool(free_unbacked_symbols(size))


@contextmanager
def data_dependent_tracing() -> Iterator[None]:
    """Within the block, operators are traced as described above. Of the whole process: trace from one thread."""
    overrides = {aten.nonzero.default: _nonzero, aten.slice_copy.Tensor: _slice_copy}
    with mock.patch.dict(op_implementations_dict, overrides):
        yield


_torch_nonzero = op_implementations_dict[aten.nonzero.default]


def _nonzero(mode: Any, operator: Any, source: torch.Tensor) -> torch.Tensor:
    transposed = _torch_nonzero(mode, operator, source)
    with mode:
        return torch.empty(transposed.shape, dtype=torch.int64, device=source.device)


def _slice_copy(
    mode: Any, _operator: Any, source: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    if not (is_unbacked(start) or is_unbacked(end) or is_unbacked(source.shape[dim])):
        return NotImplemented
    size = source.shape[dim]
    first = 0 if start is None else _clamped(start, size)
    last = size if end is None or _is_end(end) else _clamped(end, size)
    length = last - first
    if not statically_known_true(length >= 0):
        length = torch.sym_max(length, 0)
    shape = list(source.shape)
    shape[dim] = length if step == 1 else (length + step - 1) // step
    with mode:
        return torch.empty(shape, dtype=source.dtype, device=source.device)


def _is_end(end: Any) -> bool:
    return isinstance(end, int) and end == 2**63 - 1


def _clamped(position: Any, size: Any) -> Any:
    """Where a slice starts or ends: counted from the end if negative, and inside the dimension."""
    if not statically_known_true(position >= 0):
        position = torch.sym_ite(position < 0, torch.sym_max(position + size, 0), position)
    return position if statically_known_true(position <= size) else torch.sym_min(position, size)


class RecordAsserts(PassBase):
    """Note what the program asserts of the symbols that data tells, before the stock passes remove the assertions.

    Later passes trace the program again and rename its symbols, but keep the notes of nodes. So the notes are made at
    the nodes that tell symbols: `TOLD`, what they tell in the names of now, and at the first of them `ASSERTED`, the
    conditions with their text in these names.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Make the notes; change nothing else."""
        conditions: dict[sympy.Basic, str] = {}
        telling = []
        for module in graph_module.modules():
            for node in module.graph.nodes if isinstance(module, GraphModule) else ():
                for condition in asserted(node):
                    conditions.setdefault(condition, str(condition))
                if node.meta.get("unbacked_bindings"):
                    node.meta[TOLD] = told_sizes(node)
                    telling.append(node)
        if telling:
            telling[0].meta[ASSERTED] = conditions
        return PassResult(graph_module, False)


def asserted(node: Node) -> Iterator[sympy.Basic]:
    """The conditions on symbols that a node asserts."""
    subject = node.args[0] if node.args else None
    value = subject.meta.get("val") if isinstance(subject, Node) else None
    if node.target is aten._assert_scalar.default and isinstance(value, torch.SymBool):
        yield from (part for part in sympy.And.make_args(value.node.expr) if part.free_symbols)
    constrains = node.target in (aten.sym_constrain_range_for_size.default, aten.sym_constrain_range.default)
    if constrains and isinstance(value, torch.SymInt) and value.node.expr.free_symbols:
        for limit, relation in (("min", sympy.Ge), ("max", sympy.Le)):
            if isinstance(node.kwargs.get(limit), int):
                yield relation(value.node.expr, node.kwargs[limit])


def told_sizes(node: Node) -> list[Size]:
    """What data tells at a node, in terms of the program's symbols now, in the order of the node's bindings."""
    return [expression(pytree.key_get(node.meta["val"], path)) for path in node.meta["unbacked_bindings"].values()]


class OutVariants(ToOutVarPass):
    """The stock pass, without its demand for an upper bound of every size: the plan made at run time allocates."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite `graph_module` in place."""
        with mock.patch.object(executorch.exir.passes, "eval_shape_upper_bound", _placeholder_sizes):
            return super().call(graph_module)


def _placeholder_sizes(shape: Sequence[int | torch.SymInt]) -> list[int]:
    return [size if isinstance(size, int) else 1 for size in shape]
