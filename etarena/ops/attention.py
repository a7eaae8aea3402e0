"""Scaled dot-product attention that reads keys and values as a growable cache holds them, without a copy."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from ..allocator.errors import InputError, InputTypeError
from .library import LIBRARY

__all__ = ["attention"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIGNATURE = (
    "Tensor query, Tensor key, Tensor value, Tensor? mask=None, bool causal=True, float? scale=None, int? window=None"
)

LIBRARY.define(f"attention({SIGNATURE}) -> Tensor")
LIBRARY.define(f"attention.out({SIGNATURE}, *, Tensor(a!) out) -> Tensor(a!)")


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = True,
    mask: torch.Tensor | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Attention of the last positions to all of them: queries may be fewer than keys.

    Parameters
    ----------
    query : torch.Tensor
        [batch, heads, queries, size], float32, float16 or bfloat16.
    key, value : torch.Tensor
        [batch, key heads, keys, size] and [batch, key heads, keys, value size]; heads is a multiple of key heads, and
        query head ``h`` reads key head ``h // (heads // key heads)``. In any dim order.
    scale : float, optional
        Factor of the products; ``size ** -0.5`` by default.
    causal : bool
        Whether query ``i`` reads only keys up to ``keys - queries + i``: the last query stands at the last key.
    mask : torch.Tensor, optional
        [batch, heads, queries, keys] or what broadcasts to that: booleans, True where a query may read, or numbers of
        the query's dtype that are added to the products.
    window : int, optional
        Query ``i`` reads only the last `window` of the keys that `causal` allows.

    Returns
    -------
    torch.Tensor
        [batch, heads, queries, value size]; zeros for a query that may read nothing.

    Raises
    ------
    InputError, InputTypeError
        If the arguments do not fit each other.
    """
    _check_tensors(query, key, value)
    _check_options(query, mask, scale, causal, window)
    return torch.ops.etarena.attention(query, key, value, mask, causal, scale, window)


def _check_tensors(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise InputTypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
        if tensor.dtype not in DTYPES:
            raise InputTypeError(f"{name} must be float32, float16 or bfloat16, got {tensor.dtype}")
        if tensor.dtype != query.dtype:
            raise InputTypeError(f"{name} has dtype {tensor.dtype}, query has {query.dtype}")
        if tensor.dim() != 4:
            raise InputError(f"{name} must be [batch, heads, length, size], got shape {tuple(tensor.shape)}")
    if key.shape[0] != query.shape[0] or value.shape[0] != query.shape[0]:
        raise InputError(f"batches differ: query {query.shape[0]}, key {key.shape[0]}, value {value.shape[0]}")
    if key.shape[1] != value.shape[1] or key.shape[1] == 0 or query.shape[1] % key.shape[1] != 0:
        heads = f"{query.shape[1]} query heads, {key.shape[1]} key heads, {value.shape[1]} value heads"
        raise InputError(f"{heads}: query heads must be a multiple of key heads, and key and value have the same")
    if key.shape[3] != query.shape[3]:
        raise InputError(f"query has size {query.shape[3]} in its last dimension, key {key.shape[3]}")
    same = key.shape[2] == value.shape[2] if isinstance(key.shape[2], int) else True
    if not same:
        raise InputError(f"key has length {key.shape[2]}, value {value.shape[2]}")


def _check_options(
    query: torch.Tensor, mask: torch.Tensor | None, scale: float | None, causal: bool, window: int | None
) -> None:
    if mask is not None:
        if not isinstance(mask, torch.Tensor):
            raise InputTypeError(f"mask must be a torch.Tensor, got {type(mask).__name__}")
        if mask.dtype not in (torch.bool, query.dtype):
            raise InputTypeError(f"mask must be bool or {query.dtype}, got {mask.dtype}")
        if mask.dim() > 4:
            raise InputError(f"mask must broadcast to [batch, heads, queries, keys], got {mask.dim()} dimensions")
    if scale is not None and not math.isfinite(scale):
        raise InputError(f"scale must be a finite number, got {scale}")
    if window is not None and (window < 1 or not causal):
        raise InputError(f"window is a number of keys >= 1 and needs causal=True, got {window}")


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    causal: bool = True,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Eager mode: torch's own attention with everything that may not be read in one mask."""
    queries, keys = query.shape[2], key.shape[2]
    added = torch.zeros(queries, keys, dtype=torch.float32)
    if causal:
        place = torch.arange(keys - queries, keys)[:, None]
        hidden = torch.arange(keys)[None] > place
        if window is not None:
            hidden |= torch.arange(keys)[None] <= place - window
        added = added.masked_fill(hidden, -math.inf)
    if mask is not None:
        added = added + (torch.zeros(mask.shape).masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask)
    blind = (added == -math.inf).all(-1, keepdim=True) if keys else torch.ones(queries, 1, dtype=torch.bool)
    added = added.masked_fill(blind, 0.0).to(query.dtype)
    out = scaled_dot_product_attention(query, key, value, attn_mask=added, scale=scale, enable_gqa=True)
    return out.masked_fill(blind, 0.0).contiguous()


def _fake_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    causal: bool = True,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    return query.new_empty([*query.shape[:3], value.shape[3]])


LIBRARY.impl("attention", _attention, "CompositeExplicitAutograd")
torch.library.register_fake("etarena::attention", _fake_attention, lib=LIBRARY)
