"""Operators whose result has the bytes of the argument: reshapes, and copies that nobody needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....allocator.errors import Error
from .dims import same_dtype
from .registry import operator
from .strided_copy import produce

if TYPE_CHECKING:
    from .call import Call


@operator(
    "aten.view_copy.default",
    "aten._unsafe_view.default",
    "aten.reshape_copy.default",
    "aten._reshape_copy.default",
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.clone.default",
    "aten.alias_copy.default",
    "aten.detach_copy.default",
    "aten.lift_fresh_copy.default",
    "dim_order_ops._clone_dim_order.default",
)
def reshape(call: Call) -> None:
    """All tensors are dense and row-major, so nothing moves."""
    source = call["self"]
    if source.nbytes != call.out.nbytes:
        raise Error(f"{call.name} of Vulkan makes the shape {call.out.shape} of {source.shape}")
    if source.numel:
        call.alias(call.out, source)


def check_copy(values: dict[str, Any]) -> str | None:
    """Copies do not convert."""
    return same_dtype(values["out"], [values["src"]])


@operator("aten.copy.default", check=check_copy)
def copy(call: Call) -> None:
    """The result is `src`, spread over the shape of `self`."""
    source = call["src"]
    produce(call, call.out, source, spread_strides(source.shape, source.strides, call.out.shape))


@operator("aten.expand_copy.default")
def expand(call: Call) -> None:
    """Sizes of one become larger, and dimensions are added in front."""
    source = call["self"]
    produce(call, call.out, source, spread_strides(source.shape, source.strides, call.out.shape))


def spread_strides(shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor that is broadcast to a shape.

    Raises
    ------
    Error
        It cannot be.
    """
    front = len(to) - len(shape)
    if front < 0 or any(size not in (1, wanted) for size, wanted in zip(shape, to[front:], strict=True)):
        raise Error(f"a tensor of shape {shape} is spread to {to} in a Vulkan delegate")
    inner = (0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    return (*(0,) * front, *inner)
