"""Operators with results of a size that depends on data, in terms of ones that the stock CPU kernels have.

Each function computes what torch's operator does, written with operators whose sizes are known before they run: a count
of a mask, or an int read from a tensor.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from .allocator.errors import ExportError

__all__ = ["with_told_kernels"]

aten = torch.ops.aten


def with_told_kernels(program: ExportedProgram) -> ExportedProgram:
    """Replace the operators of `program` that have no kernel; the same object if there are none.

    Raises
    ------
    ExportError
        If an operator has neither a kernel nor a replacement.
    """
    nodes = [
        node
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    ]
    used = {node.target for node in nodes}
    for operator, advice in REFUSED.items():
        if operator in used:
            raise ExportError(f"operator {operator} gives a result of a size that depends on data: {advice}")
    wanted = used & REPLACED.keys() - MASKED or any(map(_mixes_masks, nodes))
    return program.run_decompositions(dict(REPLACED)) if wanted else program


def _mixes_masks(node: Node) -> bool:
    """Whether a node indexes with a mask beside other indices."""
    return node.target in MASKED and _mixed([None if index is None else index.meta["val"] for index in node.args[1]])


def _mixed(indices: Sequence[Tensor | None]) -> bool:
    given = [index for index in indices if index is not None]
    return len(given) > 1 and any(index.dtype in (torch.bool, torch.uint8) for index in given)


def _starts(ordered: Tensor) -> Tensor:
    """Where a run of equal elements begins, in a vector of any length."""
    count = ordered.shape[0]
    before = torch.cat([ordered.new_zeros(1), ordered])[:count]
    return (ordered != before) | (torch.arange(count, device=ordered.device) == 0)


def _runs(ordered: Tensor, inverse: bool, counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """First element of each run of equal elements, the run of each element, and the length of each run."""
    starts = _starts(ordered)
    values = torch.masked_select(ordered, starts)
    nothing = torch.empty(0, dtype=torch.int64, device=ordered.device)
    if not (inverse or counts):
        return values, nothing, nothing
    run = torch.cumsum(starts.to(torch.int64), 0) - 1
    if not counts:
        return values, run, nothing
    lengths = torch.zeros(values.shape[0], dtype=torch.int64, device=ordered.device)
    return values, run, lengths.scatter_add(0, run, torch.ones_like(run))


def _unique2(
    source: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    flat = source.reshape(-1)
    numbers = flat.to(torch.uint8) if flat.dtype is torch.bool else flat
    ordered, position = torch.topk(numbers, flat.shape[0], 0, False, True)
    values, run, counts = _runs(ordered, return_inverse, return_counts)
    if return_inverse:
        run = torch.zeros_like(run).scatter(0, position, run).reshape(source.shape)
    return values.to(source.dtype), run, counts


def _unique(source: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    values, inverse, _ = _unique2(source, sorted, return_inverse)
    return values, inverse


def _unique_consecutive(
    source: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    if dim is not None:
        raise ExportError("unique_consecutive along a dimension has no kernel: leave out dim, or compare rows yourself")
    values, run, counts = _runs(source.reshape(-1), return_inverse, return_counts)
    return values, (run.reshape(source.shape) if return_inverse else run), counts


def _bincount(source: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    largest = torch.cat([source.to(torch.int64), source.new_full((1,), minlength - 1, dtype=torch.int64)]).max()
    size = (largest + 1).item()
    torch._check(size >= 0)
    if weights is None:
        weights = torch.ones(source.shape, dtype=torch.int64, device=source.device)
    elif weights.dtype is not torch.float32:
        weights = weights.to(torch.float64)
    zeros = torch.zeros((size,), dtype=weights.dtype, device=source.device)
    return zeros.scatter_add(0, source.to(torch.int64), weights)


def _repeat_interleave(repeats: Tensor, *, output_size: Any = None) -> Any:
    if output_size is not None:
        return NotImplemented
    total = repeats.sum().item()
    torch._check(total >= 0)
    return aten.repeat_interleave.Tensor(repeats, output_size=total)


def _repeat_interleave_self(
    source: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: Any = None
) -> Tensor:
    if dim is None:
        source, dim = source.reshape(-1), 0
    repeats = repeats.reshape(-1).expand(source.shape[dim])
    if output_size is None:
        output_size = repeats.sum().item()
        torch._check(output_size >= 0)
    index = aten.repeat_interleave.Tensor(repeats, output_size=output_size)
    return aten.index.Tensor(source, [*[None] * (dim % source.dim()), index])  # index_select refuses empty tensors


def _plain_indices(indices: list[Tensor | None]) -> list[Tensor | None]:
    """Masks as integers: the places of their non-zero elements, one vector for each of their dimensions."""
    plain: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            plain.append(index)
        else:
            places = torch.nonzero(index)
            plain.extend(places.select(1, dim) for dim in range(index.dim()))
    return plain


def _index(source: Tensor, indices: list[Tensor | None]) -> Any:
    return aten.index.Tensor(source, _plain_indices(indices)) if _mixed(indices) else NotImplemented


def _index_put(source: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    if not _mixed(indices):
        return NotImplemented
    return aten.index_put.default(source, _plain_indices(indices), values, accumulate)


REPLACED: dict[Any, Callable[..., Any]] = {
    aten._unique2.default: _unique2,
    aten._unique.default: _unique,
    aten.unique_consecutive.default: _unique_consecutive,
    aten.bincount.default: _bincount,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten.repeat_interleave.self_Tensor: _repeat_interleave_self,
    aten.index.Tensor: _index,
    aten.index_put.default: _index_put,
}

MASKED = {aten.index.Tensor, aten.index_put.default}

REFUSED = {
    aten.unique_dim.default: (
        "unique along a dimension has no kernel; give each row a number and use torch.unique on these"
    ),
}
