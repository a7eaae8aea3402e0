"""Operators for which the stock runtime has no kernel, in terms of operators for which it has one.

Torch's own table, which lowering applies, takes these for elementary or leaves them whole.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.export import ExportedProgram

__all__ = ["decompose_missing_kernels"]

aten = torch.ops.aten


def decompose_missing_kernels(program: ExportedProgram) -> ExportedProgram:
    """`program` itself, or, if it has operators of `TABLE`, one that is traced again without them."""
    modules = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    found = {node.target for module in modules for node in module.graph.nodes} & set(TABLE)
    return program.run_decompositions({operator: TABLE[operator] for operator in found}) if found else program


def searchsorted(
    sequence: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many elements of the sorted `sequence` lie below each value, or (``right``) not above it."""
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    elements = sequence if sequence.dim() == 1 else sequence.unsqueeze(-2)
    asked = values.unsqueeze(-1)
    below = elements <= asked if right or side == "right" else elements < asked
    return below.to(torch.int32 if out_int32 else torch.int64).sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def bucketize(values: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(boundaries, values, out_int32=out_int32, right=right)


def signbit(x: Tensor) -> Tensor:
    """Zeros have signs too: the reciprocal tells them apart."""
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0))


def copysign(magnitude: Tensor, sign: Tensor) -> Tensor:
    if not magnitude.is_floating_point():
        magnitude = magnitude.to(torch.get_default_dtype())
    return torch.where(signbit(sign), -magnitude.abs(), magnitude.abs())


def fmax(one: Tensor, other: Tensor) -> Tensor:
    """The larger; of a number and a NaN the number."""
    return torch.where(other.isnan() | (one >= other), one, other)


def fmin(one: Tensor, other: Tensor) -> Tensor:
    return torch.where(other.isnan() | (one <= other), one, other)


def hypot(one: Tensor, other: Tensor) -> Tensor:
    """Scaled by the larger, so that no square overflows."""
    one, other = one.abs(), other.abs()
    large, small = torch.maximum(one, other), torch.minimum(one, other)
    ratio = torch.where(large > 0, small / large, small)
    return large * (1 + ratio * ratio).sqrt()


def exp2(x: Tensor) -> Tensor:
    return torch.exp((x if x.is_floating_point() else x.to(torch.get_default_dtype())) * math.log(2))


def erfc(x: Tensor) -> Tensor:
    return 1 - torch.erf(x)


def ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    return x * torch.pow(2.0, exponent)


def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Products of the elements up to each: a table of all pairs of positions along `dim`."""
    kind = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    if x.dim() == 0:
        return x.to(kind)
    rows = x.to(kind).movedim(dim, -1)
    position = torch.arange(rows.shape[-1], device=x.device)
    upto = position[None, :] <= position[:, None]
    return torch.where(upto, rows.unsqueeze(-2), torch.ones((), dtype=kind)).prod(-1).movedim(-1, dim)


def isin(elements: Tensor, tests: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    found = (elements.unsqueeze(-1) == tests.flatten()).any(-1)
    return ~found if invert else found


def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Like `cumprod`; each row of the table is summed around its own largest element."""
    if x.dim() == 0:
        return x.clone()
    rows = x.movedim(dim, -1)
    position = torch.arange(rows.shape[-1], device=x.device)
    upto = position[None, :] <= position[:, None]
    return torch.where(upto, rows.unsqueeze(-2), -math.inf).logsumexp(-1).movedim(-1, dim)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.topk(k, dim, largest=False, sorted=True)
    values, indices = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def adaptive_max_pool2d(x: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """The largest element of each cell of a grid, and where it is in the flattened picture."""
    height, width = x.shape[-2:]
    rows, columns = (
        [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip((height, width), output_size, strict=True)
    )
    values, places = [], []
    for top, bottom in rows:
        for left, right in columns:
            value, at = x[..., top:bottom, left:right].flatten(-2).max(-1)
            across = right - left
            values.append(value)
            places.append((at // across + top) * width + at % across + left)
    shape = (*x.shape[:-2], *output_size)
    return torch.stack(values, -1).reshape(shape), torch.stack(places, -1).reshape(shape)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.__lshift__.Scalar: torch.bitwise_left_shift,
    aten.__lshift__.Tensor: torch.bitwise_left_shift,
    aten.__rshift__.Scalar: torch.bitwise_right_shift,
    aten.__rshift__.Tensor: torch.bitwise_right_shift,
    aten.adaptive_max_pool2d.default: adaptive_max_pool2d,
    aten.bucketize.Tensor: bucketize,
    aten.copysign.Tensor: copysign,
    aten.cumprod.default: cumprod,
    aten.erfc.default: erfc,
    aten.exp2.default: exp2,
    aten.fmax.default: fmax,
    aten.fmin.default: fmin,
    aten.hypot.default: hypot,
    aten.isin.Tensor_Tensor: isin,
    aten.kthvalue.default: kthvalue,
    aten.ldexp.Tensor: ldexp,
    aten.logcumsumexp.default: logcumsumexp,
    aten.searchsorted.Tensor: searchsorted,
    aten.signbit.default: signbit,
    aten.tril_indices.default: decomposition_table[aten.tril_indices.default],
    aten.triu_indices.default: decomposition_table[aten.triu_indices.default],
}
