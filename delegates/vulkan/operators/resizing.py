"""Images of other sizes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ....allocator.errors import Error
from ..dtypes import ITEM_BYTES
from .call import BoundTensor, Call, groups_1d
from .dims import reason_unless_float, same_dtype
from .registry import operator
from .strided_copy import LOCAL, Divisors


def scale_of(given: float | None, source: int, size: int, corners: bool = False) -> float:
    """From places in a result to places in its source, in float32 as PyTorch computes it."""
    if source == size:
        return 1.0  # whatever was given
    if corners:
        return float(np.float32(source - 1) / np.float32(size - 1)) if size > 1 else 0.0
    if given is not None and given > 0:
        return float(np.float32(1.0 / given))
    return float(np.float32(source) / np.float32(size)) if size else 0.0


def scales(call: Call, rank: int) -> list[float | None]:
    """Scale factors for each dimension, outermost first, where any are given."""
    if call.get("scale_factors") is not None:
        return list(call["scale_factors"])
    names = ("scales",) if rank == 1 else ("scales_h", "scales_w")
    return [call.get(name) for name in names]


def source_of(call: Call) -> BoundTensor:
    """The images, whose argument the overloads name differently."""
    found: BoundTensor = call["input"] if "input" in call.arguments else call["self"]
    return found


def resize(call: Call, rank: int, shader: str, constants: dict[int, int], corners: bool = False) -> None:
    """Emit a dispatch of a shader that resizes planes of one or two dimensions."""
    source, out = source_of(call), call.out
    if out.numel == 0:
        return
    size, to = source.shape[-rank:], out.shape[-rank:]
    found = [scale_of(*each, corners) for each in zip(scales(call, rank), size, to, strict=True)]
    (height, width), (to_height, to_width) = (1, *size)[-2:], (1, *to)[-2:]
    if height * width == 0 or source.numel // (height * width) != out.numel // (to_height * to_width):
        raise Error(f"{call.name} of Vulkan makes the shape {out.shape} of {source.shape}")
    divisors = Divisors.of([out.numel // (to_height * to_width), to_height, to_width])
    push = struct.pack("<12I", out.numel, divisors.shifts, *divisors.words)
    push += struct.pack("<2i2f", width, height, *([*found, 1.0, 1.0] if rank == 1 else [found[1], found[0]])[:2])
    call.dispatch(shader, [source], [out], push, groups_1d(out.numel, LOCAL), {**constants, 100: LOCAL})


@operator("aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default")
def nearest_2d(call: Call) -> None:
    """Each pixel is the nearest one."""
    resize(call, 2, f"resize_nearest_b{ITEM_BYTES[call.out.dtype]}", {})


@operator("aten.upsample_nearest1d.vec", "aten.upsample_nearest1d.default", keep=True)
def nearest_1d(call: Call) -> None:
    """Each element is the nearest one."""
    resize(call, 1, f"resize_nearest_b{ITEM_BYTES[call.out.dtype]}", {})


def check_linear(values: dict[str, Any]) -> str | None:
    """Interpolation is for floats."""
    return reason_unless_float(values, "out")


@operator("aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default", check=check_linear)
def linear_2d(call: Call) -> None:
    """Interpolated between four pixels."""
    corners = call["align_corners"]
    resize(call, 2, f"resize_linear_{call.out.short}", {0: int(corners)}, corners)


@operator("aten.upsample_linear1d.vec", "aten.upsample_linear1d.default", check=check_linear, keep=True)
def linear_1d(call: Call) -> None:
    """Interpolated between two elements."""
    corners = call["align_corners"]
    resize(call, 1, f"resize_linear_{call.out.short}", {0: int(corners)}, corners)


def check_grid(values: dict[str, Any]) -> str | None:
    """Bilinear or nearest."""
    if values["interpolation_mode"] not in (0, 1):
        return "its interpolation is bicubic, the shader has bilinear and nearest"
    return same_dtype(values["out"], [values["grid"]]) or reason_unless_float(values, "out")


@operator("aten.grid_sampler_2d.default", check=check_grid)
def grid_sampler(call: Call) -> None:
    """Images read at the places that a grid names."""
    source, grid, out = call["input"], call["grid"], call.out
    if out.numel == 0:
        return
    batch, channels, height, width = source.shape
    if grid.shape != (batch, *out.shape[2:], 2) or out.shape[:2] != (batch, channels) or height * width == 0:
        raise Error(f"{call.name} of Vulkan makes the shape {out.shape} of {source.shape} with a grid of {grid.shape}")
    points = out.shape[2] * out.shape[3]
    divisors = Divisors.of([batch, points])
    push = struct.pack("<12I", batch * points, divisors.shifts, *divisors.words)
    push += struct.pack("<2iI", width, height, channels)
    constants = {0: int(call["align_corners"]), 1: call["interpolation_mode"], 2: call["padding_mode"], 100: LOCAL}
    shader = f"grid_sample_{out.short}"
    call.dispatch(shader, [source, grid], [out], push, groups_1d(batch * points, LOCAL), constants)
