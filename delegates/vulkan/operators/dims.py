"""Dimensions and sizes as operators' arguments name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....allocator.errors import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from .call import BoundTensor, Call

__all__ = [
    "dimension",
    "in_range",
    "reason_unless_float",
    "reason_unless_indices",
    "require_one_dtype",
    "same_dtype",
    "slice_start",
    "split_at",
]

INDICES = ("torch.int32", "torch.int64")
FLOATS = ("torch.float32", "torch.float16")


def dimension(dim: int, rank: int) -> int:
    """A dimension counted from the outermost one; a scalar has one.

    Raises
    ------
    Error
        There is no such dimension.
    """
    return in_range(dim, max(rank, 1), "dimension")


def in_range(index: int, size: int, what: str) -> int:
    """An index counted from the first, where negative ones count from the end.

    Raises
    ------
    Error
        It is outside.
    """
    found = index + size if index < 0 else index
    if not 0 <= found < size:
        raise Error(f"{what} {index} of {size} in a Vulkan delegate")
    return found


def slice_start(start: int | None, size: int) -> int:
    """The first index of a slice, cut to the size as Python does."""
    start = start or 0
    return min(max(start + size if start < 0 else start, 0), size)


def same_dtype(out: torch.Tensor, tensors: Sequence[torch.Tensor]) -> str | None:
    """Why tensors cannot be moved into a result as they are."""
    other = next((tensor.dtype for tensor in tensors if tensor.dtype != out.dtype), None)
    return None if other is None else f"it turns {other} into {out.dtype}"


def require_one_dtype(call: Call, *tensors: BoundTensor) -> None:
    """Refuse to take elements of one type for another: exports check this, but files may be damaged.

    Raises
    ------
    Error
        Types differ.
    """
    found = {tensor.dtype for tensor in tensors}
    if len(found) > 1:
        raise Error(f"{call.name} of Vulkan is given tensors of the types {', '.join(sorted(found))}")


def reason_unless_float(values: dict[str, Any], *names: str) -> str | None:
    """Why arguments of other types than float32 and float16 are refused."""
    other = next((values[name].dtype for name in names if str(values[name].dtype) not in FLOATS), None)
    return None if other is None else f"its shader computes with float32 and float16, this is {other}"


def reason_unless_indices(*tensors: torch.Tensor) -> str | None:
    """Why indices of other types than int32 and int64 are refused."""
    other = next((tensor.dtype for tensor in tensors if str(tensor.dtype) not in INDICES), None)
    return None if other is None else f"its indices are {other}, shaders read int32 and int64"


def split_at(tensor: BoundTensor, dim: int) -> tuple[int, int, int]:
    """Elements before a dimension, its size, and elements behind it."""
    outer = inner = 1
    for size in tensor.shape[:dim]:
        outer *= size
    for size in tensor.shape[dim + 1 :]:
        inner *= size
    return outer, tensor.shape[dim] if tensor.shape else 1, inner
