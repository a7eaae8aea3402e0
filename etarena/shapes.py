"""Sizes and lengths that callers give: the checks of `plan_for`, and what is said of caches of the wrong length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .allocator.errors import InputError, InputTypeError, ShapeError, SizeOverflowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .allocator import plan

__all__ = ["checked_shape", "illegal_length", "listed_shapes", "wrong_length"]


def listed_shapes(inputs: Sequence[plan.Input], shapes: Any) -> list[Any]:
    """Return the shapes given to `plan_for` in the order of the inputs that have some.

    Raises
    ------
    InputError, InputTypeError
        If they are not one for each, in order or by name.
    """
    names = ", ".join(entry.name for entry in inputs)
    if not hasattr(shapes, "__len__"):
        raise InputTypeError(f"shapes must be a sequence or mapping, got {type(shapes).__name__}")
    if hasattr(shapes, "keys"):
        if len(shapes) != len(inputs) or any(entry.name not in shapes for entry in inputs):
            raise InputError(f"shapes must name each of {names} once")
        return [shapes[entry.name] for entry in inputs]
    if len(shapes) != len(inputs):
        raise InputError(f"expected {len(inputs)} shapes ({names}), got {len(shapes)}")
    return list(shapes)


def checked_shape(section: plan.Method, entry: plan.Input, shape: Any) -> list[int]:
    """Return the sizes that one entry of `plan_for` stands for.

    Raises
    ------
    InputError, SizeOverflowError
        If they are no sizes of this input.
    """
    rank = len(section.values[entry.value].sizes) if entry.value >= 0 else None
    sizes = [shape] if rank is None else list(shape) if hasattr(shape, "__iter__") else None
    if sizes is None or (rank is not None and len(sizes) != rank):
        raise InputError(f"the shape of input {entry.name!r} must have {rank} sizes, got {shape!r}")
    if not all(hasattr(size, "__index__") and not isinstance(size, bool) for size in sizes):
        raise InputError(f"the shape of input {entry.name!r} must consist of ints, got {shape!r}")
    numbers = [int(size.__index__()) for size in sizes]
    if rank is not None and min(numbers, default=0) < 0:
        raise InputError(f"the shape of input {entry.name!r} must consist of sizes >= 0, got {shape!r}")
    if max(numbers, default=0) >= 2**63 or min(numbers, default=0) < -(2**63):
        raise SizeOverflowError(f"the shape of input {entry.name!r} does not fit 64 bits: {shape!r}")
    return numbers


def illegal_length(state: plan.State, length: int, symbol: plan.Symbol, step: int) -> ShapeError:
    """Say that a cache has a length that the model does not allow."""
    steps = f", {step} at a time" if step > 1 else ""
    return ShapeError(
        f"state {state.name!r} holds {length} entries, but the model allows {symbol.min} to {symbol.max} for "
        f"{symbol.name}{steps}"
    )


def wrong_length(state: plan.State, length: int, expected: int) -> ShapeError:
    """Say that a cache is not as long as the method's `past`."""
    return ShapeError(
        f"state {state.name!r} holds {length} entries in dimension {state.dim}, but past says {expected}: reset or "
        "write the states that are not in step"
    )
