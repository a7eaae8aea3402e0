"""Padding, shifting around, and cutting off triangles."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ....allocator.errors import Error
from ..dtypes import ITEM_BYTES
from .call import BoundTensor, Call, groups_1d
from .dims import dimension, require_one_dtype
from .registry import operator
from .strided_copy import LOCAL, MOST_RANK, WIDEST, Divisors, produce

CONSTANT, REFLECT, REPLICATE, WRAP = range(4)  # the shader's modes
FORMATS = {"float32": "<f", "float16": "<e", "int32": "<i", "int64": "<q", "uint8": "<B", "int8": "<b", "bool": "<?"}


@dataclass(frozen=True)
class Padded:
    """A dimension: sizes of the result and of the source, and how far the source is shifted in the result."""

    size: int
    source: int
    before: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing happens to it."""
        return self.size == self.source and self.before == 0

    def times(self, inner: int) -> Padded:
        """Together with a dimension inside that stays as it is."""
        return Padded(self.size * inner, self.source * inner, self.before * inner)

    def over(self, factor: int) -> Padded:
        """In wider elements."""
        return Padded(self.size // factor, self.source // factor, self.before // factor)


def element(value: Any, dtype: str) -> bytes:
    """The bytes of a number in a tensor of a type."""
    if dtype in ("float32", "float16"):
        try:
            return struct.pack(FORMATS[dtype], float(value))
        except OverflowError:
            return struct.pack(FORMATS[dtype], float("inf") if value > 0 else float("-inf"))
    if dtype == "bool":
        return struct.pack("<?", bool(value))
    nbytes = ITEM_BYTES[dtype]
    return (int(value) & ((1 << 8 * nbytes) - 1)).to_bytes(nbytes, "little")


def pad(call: Call, source: BoundTensor, out: BoundTensor, dims: list[Padded], mode: int, value: bytes = b"\0") -> None:
    """Emit a padded copy.

    Parameters
    ----------
    call
        The call.
    source, out
        What is read and written.
    dims
        Of both, outermost first.
    mode
        What is outside.
    value
        An element, for `CONSTANT`.

    Raises
    ------
    Error
        More dimensions are padded than the shader walks through.
    """
    if out.numel == 0:
        return
    require_one_dtype(call, source, out)
    merged = merge(dims, mode)
    if len(merged) > MOST_RANK:
        raise Error(f"{call.name} of Vulkan pads {len(merged)} dimensions, {MOST_RANK} are the most")
    item = ITEM_BYTES[source.dtype]
    inner, factor = merged[-1], WIDEST // item
    while any(number % factor for number in (inner.size, inner.source, inner.before)):
        factor //= 2
    if inner.is_whole or mode in (CONSTANT, WRAP):
        merged[-1], item = inner.over(factor), item * factor
    count = out.nbytes // item
    if source.numel == 0:
        if mode != CONSTANT:
            raise Error(f"{call.name} of Vulkan finds nothing to fill the shape {out.shape} with")
        source = call.temporary(source.dtype, (1,))  # never read
    divisors = Divisors.of([dim.size for dim in merged])
    spare = [0] * (MOST_RANK - len(merged))
    push = struct.pack("<12I", count, divisors.shifts, *divisors.words)
    push += struct.pack("<6i", *(dim.source for dim in reversed(merged)), *spare)
    push += struct.pack("<6i", *(dim.before for dim in reversed(merged)), *spare)
    push += (value * 8)[:8]
    constants = {0: len(merged), 1: mode, 100: LOCAL}
    call.dispatch(f"pad_b{item}", [source], [out], push, groups_1d(count, LOCAL), constants)


def merge(dims: list[Padded], mode: int) -> list[Padded]:
    """Merge dimensions to which nothing happens with that before them, where the mode allows it."""
    merged: list[Padded] = []
    for dim in dims:
        if merged and dim.is_whole and (merged[-1].is_whole or mode in (CONSTANT, WRAP)):
            merged[-1] = merged[-1].times(dim.size)
        elif not (dim.is_whole and dim.size == 1):
            merged.append(dim)
    return merged or [Padded(1, 1, 0)]


def padded_dims(call: Call, pairs: list[int]) -> list[Padded]:
    """Dimensions with padding before and behind them, given from the last one on.

    Raises
    ------
    Error
        The result has another shape.
    """
    source, out = call["self"], call.out
    before, behind = [0] * len(source.shape), [0] * len(source.shape)
    for i, (first, last) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        before[-1 - i], behind[-1 - i] = first, last
    expected = tuple(a + n + b for a, n, b in zip(before, source.shape, behind, strict=True))
    if expected != out.shape:
        raise Error(f"{call.name} of Vulkan makes the shape {out.shape} of {source.shape} with padding {pairs}")
    return [Padded(*dim) for dim in zip(out.shape, source.shape, before, strict=True)]


def check_rank(values: dict[str, Any]) -> str | None:
    """The shader walks through so many dimensions."""
    rank = values["self"].dim()
    return f"it is padded at rank {rank}, {MOST_RANK} is the most" if rank > MOST_RANK else None


@operator("aten.constant_pad_nd.default", check=check_rank)
def constant_pad(call: Call) -> None:
    """A number around a tensor; negative padding cuts off."""
    source = call["self"]
    dims = padded_dims(call, call["pad"])
    if all(dim.is_whole for dim in dims):
        produce(call, call.out, source, source.strides)
    else:
        pad(call, source, call.out, dims, CONSTANT, element(call["value"], source.dtype))


@operator("aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default", keep=True)
def reflection_pad(call: Call) -> None:
    """The tensor in a mirror around it."""
    dims = padded_dims(call, call["padding"])
    for dim in dims:
        if max(dim.before, dim.size - dim.source - dim.before) >= max(dim.source, 1) and not dim.is_whole:
            raise Error(f"{call.name} of Vulkan reflects {dim.source} elements into {dim.size}")
    pad(call, call["self"], call.out, dims, REFLECT)


@operator(
    "aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default", keep=True
)
def replication_pad(call: Call) -> None:
    """The elements at the border around it."""
    pad(call, call["self"], call.out, padded_dims(call, call["padding"]), REPLICATE)


@operator("aten.roll.default", check=check_rank, keep=True)
def roll(call: Call) -> None:
    """Elements that leave at one side come in at the other."""
    source = call["self"]
    if source.shape != call.out.shape:
        raise Error(f"{call.name} of Vulkan makes the shape {call.out.shape} of {source.shape}")
    if source.numel == 0:
        return
    if not call["dims"]:
        (shift,) = call["shifts"]
        pad(call, source, call.out, [Padded(source.numel, source.numel, shift % source.numel)], WRAP)
        return
    before = [0] * len(source.shape)
    for shift, given in zip(call["shifts"], call["dims"], strict=True):
        dim = dimension(given, len(source.shape))
        before[dim] = (before[dim] + shift) % source.shape[dim]
    dims = [Padded(n, n, shift) for n, shift in zip(source.shape, before, strict=True)]
    pad(call, source, call.out, dims, WRAP)


@operator("aten.tril.default", "aten.triu.default", keep=True)
def triangle(call: Call) -> None:
    """Matrices with one triangle zeroed."""
    source = call["self"]
    require_one_dtype(call, source, call.out)
    if source.shape != call.out.shape:
        raise Error(f"{call.name} of Vulkan makes the shape {call.out.shape} of {source.shape}")
    rows, columns = source.shape[-2:]
    diagonal = min(max(call["diagonal"], -rows - 1), columns + 1)
    push = struct.pack("<3IiI", source.numel, rows, columns, diagonal, 0)
    constants = {0: int("triu" in call.name), 100: LOCAL}
    shader = f"triangle_b{ITEM_BYTES[source.dtype]}"
    call.dispatch(shader, [source], [call.out], push, groups_1d(source.numel, LOCAL), constants)
