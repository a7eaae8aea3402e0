"""Copies between strided places: what most operators that only move elements come to."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from ....allocator.errors import Error, InputError
from ..dtypes import ITEM_BYTES
from .call import groups_1d
from .dims import require_one_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .call import BoundTensor, Call

__all__ = ["Divisors", "coalesce", "copy_strided", "produce"]

MOST_RANK = 6  # of the shaders
LOCAL = 128
WIDEST = 16  # bytes that an invocation moves at a time
WORD = 0xFFFFFFFF
MOST_ELEMENTS = 1 << 31

Dims: TypeAlias = "list[tuple[int, int, int]]"  # size, stride of the source, stride of the target; outermost first


@dataclass(frozen=True)
class Divisors:
    """Sizes as shaders divide by them (division.glsl), innermost first and without the outermost.

    Attributes
    ----------
    words : tuple of int
        The sizes, then the magic numbers, filled up to five of each.
    shifts : int
        Five bits each.
    """

    words: tuple[int, ...]
    shifts: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Divisors:
        """For sizes, outermost first.

        Raises
        ------
        InputError
            Their product is too large for the method.
        """
        if prod(sizes) >= MOST_ELEMENTS:
            raise InputError(
                f"{prod(sizes)} elements in one step of a Vulkan delegate, {MOST_ELEMENTS - 1} are the most"
            )
        inner = [*reversed(sizes[1:])]
        inner += [1] * (MOST_RANK - 1 - len(inner))
        bits = [(size - 1).bit_length() for size in inner]
        magics = [((1 << 32) * ((1 << bit) - size)) // size + 1 for size, bit in zip(inner, bits, strict=True)]
        return cls((*inner, *magics), sum(bit << 5 * i for i, bit in enumerate(bits)))


def coalesce(sizes: Sequence[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """Merge neighbouring dimensions that all strides walk through as one, and leave out those of size one.

    Returns
    -------
    list of tuple of int
        Size and strides of each that is left, outermost first; at least one.
    """
    merged: list[tuple[int, ...]] = []
    for size, *steps in zip(sizes, *strides, strict=True):
        if size == 1:
            continue
        if merged and all(above == size * step for above, step in zip(merged[-1][1:], steps, strict=True)):
            merged[-1] = (merged[-1][0] * size, *steps)
        else:
            merged.append((size, *steps))
    return merged or [(1, *(1 for _ in strides))]


def produce(
    call: Call, out: BoundTensor, source: BoundTensor, strides: Sequence[int], offset: int = 0, alias: bool = True
) -> None:
    """Fill a result with the elements of a tensor at certain strides.

    Parameters
    ----------
    call
        The call.
    out
        What is written whole.
    source
        What is read.
    strides
        For each dimension of `out`, how many elements further in `source`.
    offset
        Where the first element is.
    alias
        Let the result be the source where all would stay in its place.

    Raises
    ------
    Error
        The strides leave the source.
    """
    if out.numel == 0:
        return
    dims = coalesce(out.shape, strides)
    stays = offset == 0 and len(dims) == 1 and dims[0][1] == 1
    if alias and stays and out.numel == source.numel:
        call.alias(out, source)
    else:
        copy_strided(call, source, out, out.shape, strides, out.strides, offset)


def copy_strided(
    call: Call,
    source: BoundTensor,
    target: BoundTensor,
    sizes: Sequence[int],
    source_strides: Sequence[int],
    target_strides: Sequence[int],
    source_offset: int = 0,
    target_offset: int = 0,
    *,
    apart: bool = False,
) -> None:
    """Copy a box of elements.

    Parameters
    ----------
    call
        The call.
    source, target
        Tensors with elements of one size.
    sizes
        Of the box.
    source_strides, target_strides, source_offset, target_offset
        Where its elements are, in elements; strides may be zero in the source, and negative in both.
    apart
        No other box of this call has elements of this one in the target.

    Raises
    ------
    Error
        The box leaves a tensor, or the tensors are of different types.
    """
    if 0 in sizes:
        return
    require_one_dtype(call, source, target)
    _require_inside(call, source, sizes, source_strides, source_offset)
    _require_inside(call, target, sizes, target_strides, target_offset)
    dims: Dims = [(size, a, b) for size, a, b in coalesce(sizes, source_strides, target_strides)]
    _copy(call, source, target, dims, source_offset, target_offset, apart)


def _require_inside(call: Call, tensor: BoundTensor, sizes: Sequence[int], strides: Sequence[int], offset: int) -> None:
    reach = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    first = offset + sum(step for step in reach if step < 0)
    last = offset + sum(step for step in reach if step > 0)
    if first < 0 or last >= tensor.numel:
        raise Error(f"{call.name} of Vulkan reaches elements {first} to {last} of a tensor of shape {tensor.shape}")


def _copy(call: Call, source: BoundTensor, target: BoundTensor, dims: Dims, start: int, to: int, apart: bool) -> None:
    if len(dims) > MOST_RANK:
        size, a, b = dims[0]
        for i in range(size):
            _copy(call, source, target, dims[1:], start + i * a, to + i * b, apart)
        return
    item = ITEM_BYTES[source.dtype]
    if _copy_blocks(call, source, target, dims, start, to, apart):
        return
    dims, factor = _widen(dims, item, (start, to))
    if factor > 1:
        start, to, item = start // factor, to // factor, item * factor
    _dispatch(call, f"copy_strided_b{item}", source, target, dims, start, to, apart)


def _widen(dims: Dims, item: int, offsets: tuple[int, int]) -> tuple[Dims, int]:
    """See neighbours as one wider element, where they are neighbours in both."""
    *outer, (size, a, b) = dims
    if (a, b) != (1, 1):
        return dims, 1
    multiples = [size, *offsets, *(stride for dim in outer for stride in dim[1:])]
    factor = WIDEST // item
    while factor > 1 and any(number % factor for number in multiples):
        factor //= 2
    return [*((n, x // factor, y // factor) for n, x, y in outer), (size // factor, 1, 1)], factor


def _copy_blocks(
    call: Call, source: BoundTensor, target: BoundTensor, dims: Dims, start: int, to: int, apart: bool
) -> bool:
    """Copy in blocks, if one dimension is dense in the source, another in the target, and all comes in fours."""
    item = ITEM_BYTES[source.dtype]
    across = next((i for i, dim in enumerate(dims) if dim[1] == 1), None)
    last = len(dims) - 1
    if item > 4 or across is None or across == last or dims[last][2] != 1:
        return False
    multiples = [start, to, dims[across][0], dims[last][0], dims[across][2], dims[last][1]]
    multiples += [stride for i, dim in enumerate(dims) if i not in (across, last) for stride in dim[1:]]
    if any(number % 4 for number in multiples):
        return False
    blocks = [(n, a // 4, b // 4) for n, a, b in dims]
    blocks[across] = (dims[across][0] // 4, 1, dims[across][2])
    blocks[last] = (dims[last][0] // 4, dims[last][1], 1)
    rows = struct.pack("<2I", dims[last][1] // 4 & WORD, dims[across][2] // 4 & WORD)
    _dispatch(call, f"copy_blocks_b{item}", source, target, blocks, start // 4, to // 4, apart, rows)
    return True


def _dispatch(
    call: Call,
    shader: str,
    source: BoundTensor,
    target: BoundTensor,
    dims: Dims,
    start: int,
    to: int,
    apart: bool,
    more: bytes = b"",
) -> None:
    count = prod(dim[0] for dim in dims)
    divisors = Divisors.of([dim[0] for dim in dims])
    steps = [[dim[which] & WORD for dim in reversed(dims)] for which in (1, 2)]
    filled = [number for strides in steps for number in (*strides, *[0] * (MOST_RANK - len(dims)))]
    push = struct.pack("<26I", count, start & WORD, to & WORD, divisors.shifts, *divisors.words, *filled)
    constants = {0: len(dims), 100: LOCAL}
    call.dispatch(shader, [source], [target], push + more, groups_1d(count, LOCAL), constants, apart=apart)
