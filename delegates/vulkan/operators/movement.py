"""Operators that give the elements of one tensor in another order: permutations, slices, repetitions."""

from __future__ import annotations

from typing import Any

from .call import BoundTensor, Call, contiguous_strides
from .dims import dimension, in_range, slice_start
from .registry import operator
from .strided_copy import copy_strided, produce


def permuted(call: Call, order: list[int]) -> None:
    """Emit a permutation of the dimensions of `self`."""
    strides = call["self"].strides
    produce(call, call.out, call["self"], [strides[dim] for dim in order])


@operator("aten.permute_copy.default")
def permute(call: Call) -> None:
    """Dimension i of the result is ``dims[i]``."""
    rank = len(call["self"].shape)
    permuted(call, [dimension(dim, rank) for dim in call["dims"]])


@operator("aten.transpose_copy.int")
def transpose(call: Call) -> None:
    """Two dimensions change places."""
    order = list(range(len(call["self"].shape)))
    if order:
        a, b = dimension(call["dim0"], len(order)), dimension(call["dim1"], len(order))
        order[a], order[b] = order[b], order[a]
    permuted(call, order)


@operator("aten.t_copy.default")
def transpose_matrix(call: Call) -> None:
    """Two dimensions or fewer."""
    permuted(call, list(reversed(range(len(call["self"].shape)))))


@operator("aten.slice_copy.Tensor")
def slice_(call: Call) -> None:
    """Every `step`-th of a dimension."""
    source = call["self"]
    dim = dimension(call["dim"], len(source.shape))
    strides = list(source.strides)
    offset = slice_start(call["start"], source.shape[dim]) * strides[dim]
    strides[dim] *= call["step"]
    produce(call, call.out, source, strides, offset)


@operator("aten.narrow_copy.default")
def narrow(call: Call) -> None:
    """Some of a dimension."""
    source = call["self"]
    dim = dimension(call["dim"], len(source.shape))
    offset = slice_start(call["start"], source.shape[dim]) * source.strides[dim]
    produce(call, call.out, source, source.strides, offset)


@operator("aten.select_copy.int")
def select(call: Call) -> None:
    """One of a dimension, which goes."""
    source = call["self"]
    dim = dimension(call["dim"], len(source.shape))
    strides = list(source.strides)
    offset = in_range(call["index"], source.shape[dim], "index") * strides.pop(dim)
    produce(call, call.out, source, strides, offset)


@operator("aten.split_with_sizes_copy.default", "aten.split_copy.Tensor")
def split(call: Call) -> None:
    """Pieces of a dimension, one after the other."""
    source = call["self"]
    dim = dimension(call["dim"], len(source.shape))
    start = 0
    for piece in call.outs:
        produce(call, piece, source, source.strides, start * source.strides[dim])
        start += piece.shape[dim]


@operator("aten.unbind_copy.int")
def unbind(call: Call) -> None:
    """All of a dimension, each on its own."""
    source = call["self"]
    dim = dimension(call["dim"], len(source.shape))
    strides = list(source.strides)
    step = strides.pop(dim)
    for i, piece in enumerate(call.outs):
        produce(call, piece, source, strides, i * step)


@operator("aten.repeat.default")
def repeat(call: Call) -> None:
    """The tensor several times in each dimension; new ones may come in front."""
    source = call["self"]
    repeats = call["repeats"]
    front = len(repeats) - len(source.shape)
    shape, strides = (1,) * front + source.shape, (0,) * front + source.strides
    sizes = [size for pair in zip(repeats, shape, strict=True) for size in pair]
    doubled = [stride for inner in strides for stride in (0, inner)]
    if source.shape == call.out.shape:
        produce(call, call.out, source, source.strides)
    else:
        copy_strided(call, source, call.out, sizes, doubled, contiguous_strides(sizes))


@operator("aten.flip.default")
def flip(call: Call) -> None:
    """Dimensions the other way round."""
    source = call["self"]
    strides, offset = list(source.strides), 0
    if source.numel == 0:
        return
    for dim in {dimension(dim, len(source.shape)) for dim in call["dims"]} if source.shape else ():
        offset += (source.shape[dim] - 1) * strides[dim]
        strides[dim] = -strides[dim]
    produce(call, call.out, source, strides, offset)


@operator("aten.diagonal_copy.default")
def diagonal(call: Call) -> None:
    """A diagonal of two dimensions becomes the last dimension."""
    source = call["self"]
    rank = len(source.shape)
    first, second, shift = dimension(call["dim1"], rank), dimension(call["dim2"], rank), call["offset"]
    steps = source.strides
    strides = [step for dim, step in enumerate(steps) if dim not in (first, second)]
    offset = shift * steps[second] if shift >= 0 else -shift * steps[first]
    produce(call, call.out, source, [*strides, steps[first] + steps[second]], offset, alias=False)


@operator("aten.as_strided_copy.default")
def as_strided(call: Call) -> None:
    """Elements at any strides."""
    produce(call, call.out, call["self"], call["stride"], call["storage_offset"] or 0)


@operator("aten.unfold_copy.default")
def unfold(call: Call) -> None:
    """Windows of a dimension, which become the last dimension."""
    source = call["self"]
    dim = dimension(call["dimension"], len(source.shape))
    strides = list(source.strides) or [1]
    inner = strides[dim]
    strides[dim] *= call["step"]
    produce(call, call.out, source, [*strides, inner] if source.shape else [inner])


def check_pixels(values: dict[str, Any]) -> str | None:
    """Images are in the last dimensions."""
    return "it has no images" if values["self"].dim() < 3 else None


def shuffle_sizes(images: BoundTensor, factor: int) -> tuple[list[int], list[int]]:
    """Sizes and strides of images of channels, height, width: height and width in parts of `factor`."""
    *outer, channels, height, width = images.shape
    *steps, plane, row, one = images.strides
    sizes = [*outer, channels, height // factor, factor, width // factor, factor]
    return sizes, [*steps, plane, row * factor, row, factor * one, one]


# Where in ``outer, channels, factor, factor, height, width`` those of `shuffle_sizes` are, less the outer ones.
UNSHUFFLED = (0, 2, 4, 1, 3)


@operator("aten.pixel_shuffle.default", check=check_pixels, keep=True)
def pixel_shuffle(call: Call) -> None:
    """Channels become pixels of squares."""
    sizes, strides = shuffle_sizes(call.out, call["upscale_factor"])
    between(call, sizes, strides, shuffled=call.out)


@operator("aten.pixel_unshuffle.default", check=check_pixels, keep=True)
def pixel_unshuffle(call: Call) -> None:
    """Pixels of squares become channels."""
    sizes, strides = shuffle_sizes(call["self"], call["downscale_factor"])
    between(call, sizes, strides, shuffled=call["self"])


def between(call: Call, sizes: list[int], strides: list[int], shuffled: BoundTensor) -> None:
    """Copy between images and their squares as channels."""
    outer = len(sizes) - len(UNSHUFFLED)
    order = [*range(outer), *(outer + place for place in UNSHUFFLED)]
    sizes, strides = [sizes[i] for i in order], [strides[i] for i in order]
    dense = contiguous_strides(sizes)
    if shuffled is call.out:
        # Walk in the order of what is written.
        back = [order.index(i) for i in range(len(order))]
        sizes, strides, dense = [sizes[i] for i in back], [strides[i] for i in back], tuple(dense[i] for i in back)
        copy_strided(call, call["self"], call.out, sizes, dense, strides)
    else:
        copy_strided(call, call["self"], call.out, sizes, strides, dense)
