"""Operators that find elements by numbers in a tensor.

A number outside of its dimension is moved to the nearest that is inside where it is read with, and what it would write
is left out: PyTorch raises an error there, shaders cannot, and never leave a buffer.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any

import numpy as np

from ....allocator.errors import Error, InputError
from ..dtypes import ITEM_BYTES
from .call import BoundTensor, Call, contiguous_strides, groups_1d
from .dims import dimension, reason_unless_indices, require_one_dtype, same_dtype, split_at
from .joining import copy_whole
from .padding import CONSTANT, Padded, element, pad
from .registry import operator
from .strided_copy import LOCAL, MOST_RANK, WIDEST, Divisors, coalesce, copy_strided
from .views import spread_strides


def words(index: BoundTensor) -> int:
    """Words of 32 bits of each number."""
    return ITEM_BYTES[index.dtype] // 4


def rows(
    call: Call, shader: str, source: BoundTensor, index: BoundTensor, target: BoundTensor, many: int, inner: int
) -> None:
    """Take rows of a tensor, or put them, by their numbers.

    Parameters
    ----------
    call
        The call.
    shader
        ``"take_rows"`` or ``"put_rows"``.
    source, index, target
        Tensors of shape (outer, many, inner), (n), (outer, n, inner) for taking; the other way round for putting.
    many
        Rows that the numbers choose from.
    inner
        Elements of a row.
    """
    moved = target if shader == "take_rows" else source
    if moved.numel == 0:
        return
    if many == 0:
        raise InputError(f"{call.name} looks for {index.numel} elements in a dimension without any")
    require_one_dtype(call, source, target)
    item = ITEM_BYTES[moved.dtype]
    factor = WIDEST // item
    while inner % factor:
        factor //= 2
    item, inner = item * factor, inner // factor
    count = moved.nbytes // item
    outer = count // (index.numel * inner)
    chosen = source if shader == "take_rows" else target
    if count != outer * index.numel * inner or chosen.nbytes != outer * many * inner * item:
        raise Error(f"{call.name} of Vulkan moves rows between the shapes {source.shape} and {target.shape}")
    divisors = Divisors.of([outer, index.numel, inner])
    push = struct.pack("<12Ii", count, divisors.shifts, *divisors.words, many)
    constants = {0: words(index), 100: LOCAL}
    call.dispatch(f"{shader}_b{item}", [source, index], [target], push, groups_1d(count, LOCAL), constants)


def check_embedding(values: dict[str, Any]) -> str | None:
    """Numbers of 32 or 64 bits."""
    return reason_unless_indices(values["indices"])


@operator("aten.embedding.default", check=check_embedding)
def embedding(call: Call) -> None:
    """Rows of a matrix."""
    many, inner = call["weight"].shape
    rows(call, "take_rows", call["weight"], call["indices"], call.out, many, inner)


def check_index(values: dict[str, Any]) -> str | None:
    """Numbers of 32 or 64 bits, and no more dimensions than the shader walks through."""
    if values["self"].dim() > MOST_RANK:
        return f"it has rank {values['self'].dim()}, {MOST_RANK} is the most"
    return reason_unless_indices(values["index"])


@operator("aten.index_select.default", check=check_index)
def index_select(call: Call) -> None:
    """Some of a dimension by their numbers."""
    source = call["self"]
    _, many, inner = split_at(source, dimension(call["dim"], len(source.shape)))
    rows(call, "take_rows", source, call["index"], call.out, many, inner)


def gather_dispatch(call: Call, source: BoundTensor, chosen: BoundTensor, target: BoundTensor, scatter: bool) -> None:
    """Emit `gather`, or its reverse; `chosen` is the tensor in which numbers choose, `source` may be one element."""
    index = call["index"]
    if index.numel == 0:
        return
    require_one_dtype(call, source, chosen, target)
    if target is not chosen and target.shape != index.shape:
        raise Error(f"{call.name} of Vulkan finds the shape {target.shape} with an index of {index.shape}")
    dim = dimension(call["dim"], len(index.shape))
    shape, sizes = index.shape or (1,), chosen.shape or (1,)
    if len(shape) != len(sizes) or any(a > b for i, (a, b) in enumerate(zip(shape, sizes, strict=True)) if i != dim):
        raise Error(f"{call.name} of Vulkan has an index of shape {index.shape} for {chosen.shape}")
    strides = list(contiguous_strides(sizes))
    stride, strides[dim] = strides[dim], 0
    other = [0] * len(shape) if source.numel == 1 else list(contiguous_strides(source.shape or (1,)))
    if scatter and source.numel > 1 and any(a > b for a, b in zip(shape, source.shape, strict=True)):
        raise Error(f"{call.name} of Vulkan has an index of shape {index.shape} for {source.shape}")
    dims = coalesce(shape, contiguous_strides(shape), strides, other)
    divisors = Divisors.of([size for size, *_ in dims])
    spare = [0] * (MOST_RANK - len(dims))
    push = struct.pack("<12I", index.numel, divisors.shifts, *divisors.words)
    push += struct.pack("<12I", *(d[2] for d in reversed(dims)), *spare, *(d[3] for d in reversed(dims)), *spare)
    push += struct.pack("<Ii", stride, sizes[dim])
    constants = {0: words(index), 1: len(dims), 2: int(scatter), 100: LOCAL}
    shader = f"gather_b{ITEM_BYTES[target.dtype]}"
    call.dispatch(shader, [source, index], [target], push, groups_1d(index.numel, LOCAL), constants)


@operator("aten.gather.default", check=check_index)
def gather(call: Call) -> None:
    """An element for each number, which is its place in one dimension."""
    source = call["self"]
    if call.out.numel and source.numel == 0:
        raise InputError(f"{call.name} looks for {call.out.numel} elements in a tensor without any")
    gather_dispatch(call, source, source, call.out, scatter=False)


def check_scatter(values: dict[str, Any]) -> str | None:
    """As for `gather`, and nothing is converted."""
    return check_index(values) or same_dtype(values["out"], [values["src"]])


@operator("aten.scatter.src", check=check_scatter)
def scatter(call: Call) -> None:
    """A tensor with the elements replaced that `gather` would find."""
    copy_whole(call, call["self"])
    gather_dispatch(call, call["src"], call.out, call.out, scatter=True)


@operator("aten.scatter.value", check=check_index)
def scatter_value(call: Call) -> None:
    """A tensor with one number in the place of the elements that `gather` would find."""
    copy_whole(call, call["self"])
    value = constant(call, call["value"], call.out.dtype)
    gather_dispatch(call, value, call.out, call.out, scatter=True)


def constant(call: Call, value: Any, dtype: str) -> BoundTensor:
    """A tensor of one number."""
    made = call.temporary(dtype, (1,))
    pad(call, call.temporary(dtype, (0,)), made, [Padded(1, 0, 0)], CONSTANT, element(value, dtype))
    return made


def given_indices(indices: list[Any]) -> dict[int, Any]:
    """Those that are not None by their dimension."""
    return {dim: index for dim, index in enumerate(indices) if index is not None}


def check_indices(values: dict[str, Any]) -> str | None:
    """Numbers, no masks."""
    found = given_indices(values["indices"])
    if not found:
        return "it has no indices"
    if any(str(index.dtype) in ("torch.bool", "torch.uint8") for index in found.values()):
        return "its indices are a mask: how many elements it finds depends on the data"
    if values["self"].dim() > MOST_RANK:
        return f"it has rank {values['self'].dim()}, {MOST_RANK} is the most"
    return reason_unless_indices(*found.values())


def row_numbers(call: Call, indices: list[BoundTensor], sizes: list[int]) -> BoundTensor:
    """One number for the numbers in several dimensions of some sizes, which are broadcast together."""
    if len(indices) == 1:
        return indices[0]
    shape = np.broadcast_shapes(*(index.shape for index in indices))
    made = call.temporary("int32", shape)
    for i, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        if size == 0 and made.numel:
            raise InputError(f"{call.name} looks for {made.numel} elements in a dimension without any")
        if index.shape != shape:
            spread = call.temporary(index.dtype, shape)
            strides = spread_strides(index.shape, index.strides, shape)
            copy_strided(call, index, spread, shape, strides, spread.strides)
            index = spread
        push = struct.pack("<Ii", made.numel, size)
        constants = {0: words(index), 1: int(i == 0), 100: LOCAL}
        call.dispatch("index_numbers", [index], [made], push, groups_1d(made.numel, LOCAL), constants)
    return made


def fronted(call: Call, tensor: BoundTensor, dims: list[int]) -> tuple[BoundTensor, int]:
    """A tensor in which some dimensions are neighbours, and where: they are moved in front if they are not."""
    if dims == list(range(dims[0], dims[0] + len(dims))):
        return tensor, dims[0]
    order = [*dims, *(dim for dim in range(len(tensor.shape)) if dim not in dims)]
    moved = call.temporary(tensor.dtype, [tensor.shape[dim] for dim in order])
    copy_strided(call, tensor, moved, moved.shape, [tensor.strides[dim] for dim in order], moved.strides)
    return moved, 0


@operator("aten.index.Tensor", check=check_indices)
def index(call: Call) -> None:
    """Elements whose places in some dimensions are numbers, broadcast together."""
    found = given_indices(call["indices"])
    if call.out.numel == 0:
        return
    source, first = fronted(call, call["self"], list(found))
    sizes = list(source.shape[first : first + len(found)])
    numbers = row_numbers(call, list(found.values()), sizes)
    rows(call, "take_rows", source, numbers, call.out, prod(sizes), prod(source.shape[first + len(found) :]))


def check_put(values: dict[str, Any]) -> str | None:
    """As for `index`, with dimensions that are neighbours and nothing added up."""
    found = list(given_indices(values["indices"]))
    if values["accumulate"]:
        return "it adds up what is put in one place"
    if found and found[-1] - found[0] >= len(found):
        return "its indices are in dimensions that are no neighbours"
    return check_indices(values) or same_dtype(values["out"], [values["values"]])


@operator("aten.index_put.default", check=check_put)
def index_put(call: Call) -> None:
    """A tensor with the elements replaced that `index` would find."""
    found, values, out = given_indices(call["indices"]), call["values"], call.out
    copy_whole(call, call["self"])
    if out.numel == 0:
        return
    first = min(found)
    sizes = list(out.shape[first : first + len(found)])
    numbers = row_numbers(call, list(found.values()), sizes)
    inner = out.shape[first + len(found) :]
    shape = (*out.shape[:first], *numbers.shape, *inner)
    if values.shape != shape and prod(shape):
        spread = call.temporary(values.dtype, shape)
        strides = spread_strides(values.shape, values.strides, shape)
        copy_strided(call, values, spread, shape, strides, spread.strides)
        values = spread
    if prod(shape):
        rows(call, "put_rows", values, numbers, out, prod(sizes), prod(inner))
