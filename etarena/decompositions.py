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


TABLE: dict[Any, Callable[..., Tensor]] = {
    aten.bucketize.Tensor: bucketize,
    aten.copysign.Tensor: copysign,
    aten.cumprod.default: cumprod,
    aten.erfc.default: erfc,
    aten.exp2.default: exp2,
    aten.fmax.default: fmax,
    aten.fmin.default: fmin,
    aten.hypot.default: hypot,
    aten.ldexp.Tensor: ldexp,
    aten.searchsorted.Tensor: searchsorted,
    aten.signbit.default: signbit,
    aten.tril_indices.default: decomposition_table[aten.tril_indices.default],
    aten.triu_indices.default: decomposition_table[aten.triu_indices.default],
}
