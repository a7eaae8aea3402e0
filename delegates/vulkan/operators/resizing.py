"""Images of other sizes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ....allocator.errors import Error
from ..dtypes import ITEM_BYTES
from .call import BoundTensor, Call, groups_1d
from .dims import reason_unless_float, require_one_dtype, same_dtype
from .lanes import activation_constants
from .registry import operator
from .strided_copy import LOCAL, Divisors

MODES = ("nearest", "nearest-exact", "linear", "cubic")


def scale_of(given: float | None, source: int, size: int, mode: str, corners: bool) -> float:
    """From places in a result to places in its source, in float32 as PyTorch computes it."""
    if source == size and mode in ("nearest", "linear"):
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
    if rank == 1:
        return [call.get("scales")]
    return [call.get(f"scales_{side}", call.get(f"scale_{side}")) for side in "hw"]


def source_of(call: Call) -> BoundTensor:
    """The images, whose argument operators name differently."""
    found: BoundTensor = next(call[name] for name in ("input", "self", "x") if name in call.arguments)
    return found


def resize(call: Call, rank: int, mode: str, corners: bool = False) -> None:
    """Emit a dispatch of a shader that resizes planes of one or two dimensions."""
    source, out = source_of(call), call.out
    if out.numel == 0:
        return
    require_one_dtype(call, source, out)
    size, to = source.shape[-rank:], out.shape[-rank:]
    found = [scale_of(*each, mode, corners) for each in zip(scales(call, rank), size, to, strict=True)]
    (height, width), (to_height, to_width) = (1, *size)[-2:], (1, *to)[-2:]
    if height * width == 0 or source.numel // (height * width) != out.numel // (to_height * to_width):
        raise Error(f"{call.name} of Vulkan makes the shape {out.shape} of {source.shape}")
    divisors = Divisors.of([out.numel // (to_height * to_width), to_height, to_width])
    push = struct.pack("<12I", out.numel, divisors.shifts, *divisors.words)
    push += struct.pack("<2i2f", width, height, found[-1], found[0] if rank == 2 else 1.0)
    shader, each = f"resize_{mode}_{out.short}", 1
    constants: dict[int, int | float] = {0: int(corners)}
    if mode == "linear" and to_width % 4 == 0 and found[-1] < 1 / 3:
        constants[1], each = 1, 4
    if mode.startswith("nearest"):
        shader, constants = f"resize_nearest_b{ITEM_BYTES[out.dtype]}", {0: int(mode == "nearest-exact")}
    reads: list[BoundTensor] = [source]
    added: tuple[BoundTensor, ...] = ()
    if mode == "linear":
        reads, added, push = with_addend(call, push, constants)
    groups = groups_1d(out.numel // each, LOCAL)
    call.dispatch(shader, reads, [out], push, groups, {**constants, 100: LOCAL}, replaceable=added)


def with_addend(
    call: Call, push: bytes, constants: dict[int, int | float]
) -> tuple[list[BoundTensor], tuple[BoundTensor, ...], bytes]:
    """What fusing gives the shader that resizes linearly: another tensor to add, and an activation."""
    addend = call.get("addend")
    factors = [float(number) for number in call.get("factors") or (1.0, 0.0)]
    constants.update(activation_constants(call))
    if addend is None:
        return [source_of(call)] * 2, (), push + struct.pack("<2f", *factors)
    require_one_dtype(call, addend, call.out)
    if addend.shape != call.out.shape or len(factors) != 2:
        raise Error(f"{call.name} of Vulkan adds the shape {addend.shape} to {call.out.shape}")
    constants[2] = 1
    return [source_of(call), addend], (addend,), push + struct.pack("<2f", *factors)


@operator("aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default")
def nearest_2d(call: Call) -> None:
    """Each pixel is the nearest one."""
    resize(call, 2, "nearest")


@operator("aten.upsample_nearest1d.vec", "aten.upsample_nearest1d.default", keep=True)
def nearest_1d(call: Call) -> None:
    """Each element is the nearest one."""
    resize(call, 1, "nearest")


def check_floats(values: dict[str, Any]) -> str | None:
    """Interpolation is for floats."""
    return reason_unless_float(values, "out")


@operator("aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default", check=check_floats)
def linear_2d(call: Call) -> None:
    """Interpolated between four pixels."""
    resize(call, 2, "linear", call["align_corners"])


@operator("aten.upsample_linear1d.vec", "aten.upsample_linear1d.default", check=check_floats, keep=True)
def linear_1d(call: Call) -> None:
    """Interpolated between two elements."""
    resize(call, 1, "linear", call["align_corners"])


@operator("aten._upsample_nearest_exact2d.vec", "aten._upsample_nearest_exact2d.default")
def nearest_exact_2d(call: Call) -> None:
    """Each pixel is the one nearest to its middle."""
    resize(call, 2, "nearest-exact")


@operator("aten.upsample_bicubic2d.vec", "aten.upsample_bicubic2d.default", check=check_floats)
def cubic_2d(call: Call) -> None:
    """Interpolated between 4 x 4 pixels."""
    resize(call, 2, "cubic", call["align_corners"])


@operator("etarena.resize2d.default", check=check_floats)
def own_resize(call: Call) -> None:
    """In any of the ways of `interpolate`; exports put it in place of PyTorch's operators."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call["mode"], call["mode"])
    if mode not in MODES:
        raise Error(f"{call.name} of Vulkan is told to resize by {mode!r}")
    resize(call, 2, mode, call["align_corners"])


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
    require_one_dtype(call, source, grid, out)
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
