"""Resizing as one operator, as eager PyTorch has it, where composite operators run in Python."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["whole_resizing"]

NAMES = (
    *(f"upsample_nearest{rank}d" for rank in (1, 2, 3)),
    *(f"_upsample_nearest_exact{rank}d" for rank in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
)
KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


@contextmanager
def whole_resizing() -> Iterator[None]:
    """Within the block, what torch would take apart in Python stays whole. Of the whole process, which is restored."""
    packets = [getattr(torch.ops.aten, name) for name in NAMES]
    overloads = [overload for packet in packets for overload in (packet.vec, packet.default)]
    before = [dict(overload.py_kernels) for overload in overloads]
    for packet in packets:
        for key in KEYS:
            packet.default.py_kernels.pop(key, None)
            packet.vec.py_kernels[key] = partial(_resize, packet.default)
    _forget(overloads)
    try:
        yield
    finally:
        for overload, kernels in zip(overloads, before, strict=True):
            overload.py_kernels.clear()
            overload.py_kernels.update(kernels)
        _forget(overloads)


def _forget(overloads: list[Any]) -> None:
    for overload in overloads:
        overload._dispatch_cache.clear()


def _resize(operator: Any, source: torch.Tensor, size: Any, *rest: Any) -> torch.Tensor:
    """The operator that torch's C++ code calls for one given the sizes or the scales; `rest` ends with the scales."""
    *options, scales = rest
    sizes = upsample_compute_output_size(source.size(), size, scales)
    return operator(source, sizes, *options, *(scales or [None] * len(sizes)))
