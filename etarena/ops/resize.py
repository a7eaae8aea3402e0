"""Resizing of pictures in every way of ``interpolate`` that weighs at most 4 x 4 pixels, as one operator.

Exports put it in place of PyTorch's operators (`etarena.resizing`), for which the stock runtime has slow kernels or
none.
"""

from collections.abc import Sequence

import torch
from torch._prims_common import suggest_memory_format

from .library import LIBRARY

__all__ = ["MODES", "RESIZE", "target_size"]

SIGNATURE = "Tensor x, SymInt[]? size, float? scale_h, float? scale_w, str mode, bool align_corners"

LIBRARY.define(f"resize2d({SIGNATURE}) -> Tensor")
LIBRARY.define(f"resize2d.out({SIGNATURE}, *, Tensor(a!) out) -> Tensor(a!)")

MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")
"""Values of ``mode``, with the meaning they have for `torch.nn.functional.interpolate`."""


def target_size(
    x: torch.Tensor, size: Sequence[int] | None, scale_h: float | None, scale_w: float | None
) -> tuple[int | torch.SymInt, ...]:
    """Height and width of the result: `size`, or by the scales, rounded down."""
    if size is not None:
        torch._check(len(size) == 2, lambda: f"size is [height, width], got {len(size)} numbers")
        return tuple(size)
    if scale_h is None or scale_w is None:
        raise RuntimeError("neither a size nor two scales are given")
    scales = (x.shape[2], scale_h), (x.shape[3], scale_w)
    return tuple(old * int(by) if int(by) == by else torch.sym_int(old * by) for old, by in scales)


def _resize2d(
    x: torch.Tensor,
    size: Sequence[int] | None,
    scale_h: float | None,
    scale_w: float | None,
    mode: str,
    align_corners: bool,
) -> torch.Tensor:
    """Eager mode: PyTorch's own operators."""
    aten = torch.ops.aten
    target = list(target_size(x, size, scale_h, scale_w))
    if mode == "nearest":
        return aten.upsample_nearest2d.default(x, target, scale_h, scale_w)
    if mode == "nearest-exact":
        return aten._upsample_nearest_exact2d.default(x, target, scale_h, scale_w)
    torch._check(mode in MODES, lambda: f"mode is one of {', '.join(MODES)}, got {mode!r}")
    operator = aten.upsample_bilinear2d if mode == "bilinear" else aten.upsample_bicubic2d
    return operator.default(x, target, align_corners, scale_h, scale_w)


def _fake_resize2d(
    x: torch.Tensor,
    size: Sequence[int] | None,
    scale_h: float | None,
    scale_w: float | None,
    mode: str,
    align_corners: bool,
) -> torch.Tensor:
    shape = (*x.shape[:2], *target_size(x, size, scale_h, scale_w))
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=suggest_memory_format(x))


LIBRARY.impl("resize2d", _resize2d, "CompositeExplicitAutograd")
torch.library.register_fake("etarena::resize2d", _fake_resize2d, lib=LIBRARY)

RESIZE = torch.ops.etarena.resize2d.default
