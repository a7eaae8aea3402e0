"""Operators that put tensors together in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dims import dimension, in_range, same_dtype, slice_start
from .registry import operator
from .strided_copy import copy_strided

if TYPE_CHECKING:
    from .call import BoundTensor, Call


def check_tensors(values: dict[str, Any]) -> str | None:
    """All have one type."""
    return same_dtype(values["out"], values["tensors"])


@operator("aten.cat.default", check=check_tensors)
def cat(call: Call) -> None:
    """One after the other along a dimension."""
    out = call.out
    dim = dimension(call["dim"], len(out.shape))
    place = 0
    for tensor in call["tensors"]:
        if tensor.numel:  # PyTorch lets an empty vector stand for any empty tensor
            start = place * out.strides[dim]
            copy_strided(call, tensor, out, tensor.shape, tensor.strides, out.strides, 0, start, apart=True)
            place += tensor.shape[dim]


@operator("aten.stack.default", check=check_tensors)
def stack(call: Call) -> None:
    """One after the other along a new dimension."""
    out = call.out
    dim = dimension(call["dim"], len(out.shape))
    strides = list(out.strides)
    step = strides.pop(dim)
    for i, tensor in enumerate(call["tensors"]):
        copy_strided(call, tensor, out, tensor.shape, tensor.strides, strides, 0, i * step, apart=True)


def check_scatter(values: dict[str, Any]) -> str | None:
    """Both have one type."""
    return same_dtype(values["out"], [values["src"]])


@operator("aten.slice_scatter.default", check=check_scatter)
def slice_scatter(call: Call) -> None:
    """A tensor with a slice of it replaced."""
    out, source = call.out, call["src"]
    copy_whole(call, call["self"])
    if source.numel:
        dim = dimension(call["dim"], len(out.shape))
        strides = list(out.strides)
        offset = slice_start(call["start"], out.shape[dim]) * strides[dim]
        strides[dim] *= call["step"]
        copy_strided(call, source, out, source.shape, source.strides, strides, 0, offset)


@operator("aten.select_scatter.default", check=check_scatter, keep=True)
def select_scatter(call: Call) -> None:
    """A tensor with one of a dimension replaced."""
    out, source = call.out, call["src"]
    copy_whole(call, call["self"])
    if source.numel:
        dim = dimension(call["dim"], len(out.shape))
        strides = list(out.strides)
        offset = in_range(call["index"], out.shape[dim], "index") * strides.pop(dim)
        copy_strided(call, source, out, source.shape, source.strides, strides, 0, offset)


def copy_whole(call: Call, source: BoundTensor) -> None:
    """Begin a result with the elements of a tensor of its shape."""
    copy_strided(call, source, call.out, call.out.shape, source.strides, call.out.strides)
