"""Shapes, strides and dim orders that come from Python, checked."""

from __future__ import annotations

from typing import Any

from ..allocator.errors import InputError, InputTypeError, SizeOverflowError

__all__ = ["LARGEST_SIZE", "MOST_DIMENSIONS", "checked_order", "strides_of", "too_large", "whole_numbers"]

MOST_DIMENSIONS = 16  # kTensorDimensionLimit of ExecuTorch
LARGEST_SIZE = 2**31 - 1  # of a size and a stride: ExecuTorch keeps both in 32 bits


def too_large(what: str, number: int, dim: int) -> Exception:
    """The error for a size or stride out of range."""
    if number < 0:
        return InputError(f"{what} {number} of dimension {dim} is negative")
    return SizeOverflowError(f"{what} {number} of dimension {dim} does not fit the 32 bits that ExecuTorch has for it")


def whole_numbers(what: str, numbers: Any) -> list[int]:
    """Numbers from 0 to `LARGEST_SIZE`, at most `MOST_DIMENSIONS` of them.

    Raises
    ------
    InputTypeError
        No sequence of whole numbers.
    InputError, SizeOverflowError
        Too many, negative, or too large.
    """
    try:
        found = list(numbers)
    except TypeError as error:
        raise InputTypeError(f"{what} must be a sequence of numbers, got {numbers!r}") from error
    if len(found) > MOST_DIMENSIONS:
        raise InputError(f"{what} of {len(found)} dimensions: ExecuTorch has at most {MOST_DIMENSIONS}")
    for dim, number in enumerate(found):
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise InputTypeError(f"{what} must be a sequence of numbers, got {number!r}")
        found[dim] = number.__index__()
        if not 0 <= found[dim] <= LARGEST_SIZE:
            raise too_large(what, found[dim], dim)
    return found


def checked_order(dim_order: Any, rank: int) -> list[int]:
    """A dim order of so many dimensions; `InputError` if it is none."""
    order = whole_numbers("dim_order", dim_order)
    if sorted(order) != list(range(rank)):
        raise InputError(f"dim_order {order} is no order of {rank} dimensions")
    return order


def strides_of(sizes: list[int], order: list[int]) -> list[int]:
    """Strides in items of a dense tensor whose dimensions lie in this order; may be too large for 32 bits."""
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
        if step > 1 << 57:
            raise SizeOverflowError(f"shape {sizes}: a tensor has at most 2**57 items")
    return strides
