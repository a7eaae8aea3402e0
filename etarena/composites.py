"""Composite operators whose implementation inside torch turns symbolic sizes into numbers, written again in Python."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["size_preserving_composites"]

COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@contextmanager
def size_preserving_composites() -> Iterator[None]:
    """Within the block, these operators trace with sizes of any value; torch is as before afterwards."""
    replaced = [operator for operator in TABLE if COMPOSITE not in operator.py_kernels]
    for operator in replaced:
        operator.py_impl(COMPOSITE)(TABLE[operator])
    try:
        yield
    finally:
        for operator in replaced:
            del operator.py_kernels[COMPOSITE]
            operator._dispatch_cache.clear()


def max_pool1d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Tensor:
    """As a picture of one row."""
    steps = [1, *stride] if stride else []
    row = torch.ops.aten.max_pool2d.default(
        x.unsqueeze(-2), [1, *kernel_size], steps, [0, *padding], [1, *dilation], ceil_mode
    )
    return row.squeeze(-2)


def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:
        return x.flatten().gather(0, indices.flatten())
    dim %= x.dim()
    shape = torch.broadcast_shapes(
        [1 if axis == dim else size for axis, size in enumerate(x.shape)],
        [1 if axis == dim else size for axis, size in enumerate(indices.shape)],
    )
    x = x.expand(*shape[:dim], x.shape[dim], *shape[dim + 1 :])
    return x.gather(dim, indices.expand(*shape[:dim], indices.shape[dim], *shape[dim + 1 :]))


TABLE: dict[Any, Callable[..., Tensor]] = {
    torch.ops.aten.max_pool1d.default: max_pool1d,
    torch.ops.aten.take_along_dim.default: take_along_dim,
}
