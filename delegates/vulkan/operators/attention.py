"""Scaled dot product attention as a whole."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from ....allocator.errors import Error
from ..schema import is_row_major
from .dims import reason_unless_float, require_one_dtype, same_dtype
from .lanes import LANES, group_constants, lane_shader, waves_of
from .registry import operator
from .rounds import require_rounds, too_long
from .views import spread_strides

if TYPE_CHECKING:
    import torch

    from .call import BoundTensor, Call

FEW = 2  # queries, up to which invocations share one
WIDEST = 128  # columns that invocations keep
ENDLESS = 1 << 30  # keys


def same_sizes(first: torch.Tensor, second: torch.Tensor, dims: range) -> bool:
    """Whether sizes are the same, without asking what symbols are."""
    return all(str(first.shape[dim]) == str(second.shape[dim]) for dim in dims)


def reason_of_shapes(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, shared: bool) -> str | None:
    """Why tensors of these shapes are refused; `shared`: several heads may have the same keys."""
    rank = query.dim()
    if rank not in (3, 4) or key.dim() != rank or value.dim() != rank:
        return "its tensors are not all of rank 3, or all of rank 4"
    for tensor in (query, value):
        columns = tensor.shape[-1]
        if not isinstance(columns, int) or not 0 < columns <= WIDEST:
            return f"its rows have {columns} elements, {WIDEST} are the most"
    own = 1 if shared and rank == 4 else rank - 2
    if not same_sizes(query, key, range(own)) or not same_sizes(key, value, range(rank - 1)):
        return "its batches or heads are broadcast"
    return None


def check_attention(values: dict[str, Any]) -> str | None:
    """Floats of (batch, head, row, column) with few columns, known at export."""
    query, key, value, mask = (values[name] for name in ("query", "key", "value", "attn_mask"))
    if values["dropout_p"]:
        return "it drops out"
    if mask is not None and mask.dim() > query.dim():
        return "its mask has more dimensions than the queries"
    if mask is not None and str(mask.dtype) not in ("torch.bool", str(query.dtype)):
        return f"its mask is {mask.dtype}"
    if isinstance(key.shape[-2], int) and too_long(key.shape[-2] // LANES):
        return too_long(key.shape[-2] // LANES)
    reason = reason_of_shapes(query, key, value, values["enable_gqa"])
    return reason or reason_unless_float(values, "query") or same_dtype(query, [key, value])


def as_four(tensor: BoundTensor) -> tuple[int, ...]:
    """Sizes as (batch, head, row, column)."""
    return (1,) * (4 - len(tensor.shape)) + tensor.shape


def suffix(call: Call, kind: str, mask: BoundTensor | None) -> str:
    """Which variant of the shaders."""
    bytes_mask = "_bytes" if mask is not None and mask.dtype == "bool" else ""
    return lane_shader(f"{kind}{bytes_mask}", call.limits)


@operator("aten.scaled_dot_product_attention.default", check=check_attention, keep=True)
def attention(call: Call) -> None:
    """Softmax of the products of queries and keys, times the values; a query that may see no key gets zeros."""
    emit(call, call["attn_mask"], call["is_causal"], ahead=0, window=None)


def check_own(values: dict[str, Any]) -> str | None:
    """As for PyTorch's, with row-major keys and values."""
    if any(not is_row_major(values[name]) for name in ("key", "value")):
        return "its keys or values are not row-major"
    return check_attention({**values, "attn_mask": values["mask"], "dropout_p": 0.0, "enable_gqa": True})


@operator("etarena.attention.default", check=check_own)
def own_attention(call: Call) -> None:
    """Attention whose last query stands at the last key."""
    ahead = as_four(call["key"])[2] - as_four(call["query"])[2]
    emit(call, call["mask"], call["causal"], ahead, call["window"])


def emit(call: Call, mask: BoundTensor | None, causal: bool, ahead: int, window: int | None) -> None:
    """Emit attention.

    Parameters
    ----------
    call
        With query, key, value and scale.
    mask
        Bytes that allow, or numbers to add.
    causal
        Whether query ``i`` sees only keys up to ``i + ahead``.
    ahead, window
        With `causal`; `window`: and how many of these.
    """
    query, key, value, out = call["query"], call["key"], call["value"], call.out
    if out.numel == 0:
        return
    require_one_dtype(call, query, key, value, out)
    require_rounds(call, as_four(key)[2] // LANES)
    (batch, heads, queries, columns), (_, key_heads, keys, _) = as_four(query), as_four(key)
    value_columns = as_four(value)[3]
    fits = as_four(key) == (batch, key_heads, keys, columns) and as_four(value)[:3] == (batch, key_heads, keys)
    if not fits or heads % max(key_heads, 1) or as_four(out) != (batch, heads, queries, value_columns):
        raise Error(f"{call.name} of Vulkan is given the shapes {query.shape}, {key.shape}, {value.shape}")
    strides: tuple[int, ...] = (0, 0, 0, 0)
    if mask is not None:
        require_one_dtype(call, *(() if mask.dtype == "bool" else (query, mask)))
        strides = spread_strides(mask.shape, mask.strides, (batch, heads, queries, keys))
    scale = call["scale"] if call["scale"] is not None else 1.0 / math.sqrt(columns)
    push = struct.pack("<5If", queries, keys, heads, key_heads, heads // max(key_heads, 1), scale)
    push += struct.pack("<2i4I", ahead, min(window or ENDLESS, ENDLESS), *strides)
    few = queries <= FEW
    per_group = waves_of(call.limits) * (1 if few else LANES)
    constants: dict[int, int | float] = {
        0: -(-columns // 4),
        1: -(-value_columns // 4),
        2: int(mask is not None),
        3: int(strides[2] == 0),
        4: int(causal),
        5: columns % 4,
        6: value_columns % 4,
        **group_constants(call.limits),
    }
    shader = f"attention{'_few' if few else ''}_{suffix(call, query.short, mask)}"
    # Nothing is read of a mask that is not there, and of keys that are not there.
    known = (tensor if tensor is not None and tensor.numel else query for tensor in (key, value, mask))
    call.dispatch(shader, [query, *known], [out], push, (-(-queries // per_group), heads, batch), constants)
