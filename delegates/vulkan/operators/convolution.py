"""Convolutions of one and two dimensions: pointwise, depthwise, grouped, dilated, transposed."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from .call import groups_1d
from .lanes import LANES, activation_constants, group_constants, lane_shader, slices, waves_of
from .matmul import MOST_GROUPS, Product, dispatch_product, pack_rows_by_four
from .registry import operator
from .rounds import MOST_ROUNDS, require_rounds, too_long

if TYPE_CHECKING:
    from .call import BoundTensor, Call

__all__ = ["Convolution", "Taps", "convolution", "pack_channels", "pack_depthwise", "taps_of_phase"]

PIXELS = 32  # of a tile: four for each of eight lanes
MOST_TILES = 4  # of eight output channels, in registers
MOST_ROW_TAPS = 16
MOST_DEPTHWISE_TAPS = 49  # all are unrolled


@dataclass(frozen=True, slots=True)
class Taps:
    """Along one dimension, which taps of the kernel an output of a grid meets, and where.

    Attributes
    ----------
    first, step, count
        Taps ``first``, ``first + step``, ...
    place, place_step
        Position in the input of the first tap for the first output, and how far the next tap is.
    """

    first: int
    step: int
    count: int
    place: int
    place_step: int


def taps_of_phase(phase: int, kernel: int, stride: int, padding: int, dilation: int) -> Taps:
    """Taps of a transposed convolution that meet outputs ``phase``, ``phase + stride``, ...

    Input ``i`` and tap ``t`` meet at output ``i * stride - padding + t * dilation``.
    """
    step = stride // gcd(stride, dilation)
    found = [t for t in range(min(kernel, step)) if (phase + padding - t * dilation) % stride == 0]
    if not found:
        return Taps(0, 1, 0, 0, 0)
    first = found[0]
    place = (phase + padding - first * dilation) // stride
    return Taps(first, step, len(range(first, kernel, step)), place, -(step * dilation) // stride)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Sizes of a convolution of images; pairs are (y, x)."""

    batch: int
    in_channels: int
    out_channels: int
    groups: int
    size: tuple[int, int]
    out_size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    transposed: bool

    @classmethod
    def of(cls, call: Call) -> Convolution:
        """The sizes of a call; one dimension is an image of one row."""
        x, weight, out = call["input"], call["weight"], call.out
        flat = len(x.shape) == 3

        def pair(name: str, single: int) -> tuple[int, int]:
            given = [int(value) for value in call[name]]
            y, x = given if len(given) == 2 else (given[0], given[0])
            return (single, x) if flat else (y, x)

        def plane(shape: tuple[int, ...]) -> tuple[int, int]:
            return (1, shape[2]) if flat else (shape[2], shape[3])

        return cls(
            batch=x.shape[0],
            in_channels=x.shape[1],
            out_channels=out.shape[1],
            groups=int(call["groups"]),
            size=plane(x.shape),
            out_size=plane(out.shape),
            kernel=plane(weight.shape),
            stride=pair("stride", 1),
            padding=pair("padding", 0),
            dilation=pair("dilation", 1),
            transposed=bool(call["transposed"]),
        )

    @property
    def out_of_group(self) -> int:
        """Output channels of a group."""
        return self.out_channels // self.groups

    @property
    def in_of_group(self) -> int:
        """Input channels of a group."""
        return self.in_channels // self.groups

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product for each image."""
        plain = self.kernel == self.stride == (1, 1) and self.padding == (0, 0)
        return plain and self.groups == 1 and not self.transposed

    @property
    def is_depthwise(self) -> bool:
        """Whether each output channel sees one input channel, with a kernel small enough to unroll."""
        columns = 3 * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1
        unrolled = self.kernel[0] * self.kernel[1] <= MOST_DEPTHWISE_TAPS and self.dilation[0] * self.kernel[0] <= 16
        fits = unrolled and self.padding[1] < columns <= 64
        return self.in_of_group == 1 and not self.transposed and fits

    @property
    def has_rows(self) -> bool:
        """Whether loading each pixel of a row once for all taps pays, and can be unrolled."""
        columns = 3 * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1
        unrolled = 3 <= self.kernel[1] <= MOST_ROW_TAPS and self.padding[1] < columns <= 32
        short = self.kernel[0] * (1 + self.in_of_group) <= MOST_ROUNDS
        return unrolled and not self.transposed and short

    @property
    def channel_tiles(self) -> int:
        """Tiles of eight output channels that a lane works on."""
        tiles = -(-self.out_of_group // LANES)
        return -(-tiles // -(-tiles // MOST_TILES))


def pack_channels(weight: np.ndarray[Any, Any], groups: int) -> np.ndarray[Any, Any]:
    """From (out, in, y, x) to (group, out to a multiple of 8, y, x, in to a multiple of 4), zeros between."""
    out, inner, height, width = weight.shape
    rows = out // groups
    packed = np.zeros((groups, -(-rows // 8) * 8, height, width, -(-inner // 4) * 4), weight.dtype)
    packed[:, :rows, :, :, :inner] = weight.reshape(groups, rows, inner, height, width).transpose(0, 1, 3, 4, 2)
    return packed


def pack_taps(weight: np.ndarray[Any, Any], groups: int) -> np.ndarray[Any, Any]:
    """From (out, in, y, x) to (group, out to a multiple of 8, y, in, x to a multiple of 4), zeros between."""
    out, inner, height, width = weight.shape
    rows = out // groups
    packed = np.zeros((groups, -(-rows // 8) * 8, height, inner, -(-width // 4) * 4), weight.dtype)
    packed[:, :rows, :, :, :width] = weight.reshape(groups, rows, inner, height, width).transpose(0, 1, 3, 2, 4)
    return packed


def pack_depthwise(weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """From (channel, 1, y, x) to (channel, taps to a multiple of 4)."""
    return pack_rows_by_four(weight.reshape(weight.shape[0], -1))


def by_output(weight: np.ndarray[Any, Any], groups: int, y: Taps, x: Taps) -> np.ndarray[Any, Any]:
    """Of transposed weights (in, out of group, y, x) those taps, as (out, in of group, y, x)."""
    inner, out, height, width = weight.shape
    parted = weight.reshape(groups, inner // groups, out, height, width).transpose(0, 2, 1, 3, 4)
    taken = parted[..., y.first : y.first + y.count * y.step : y.step, x.first : x.first + x.count * x.step : x.step]
    return np.ascontiguousarray(taken).reshape(groups * out, inner // groups, y.count, x.count)


def check_convolution(values: dict[str, Any]) -> str | None:
    """Volumes are left to others."""
    rank = values["input"].dim()
    if rank not in {3, 4}:
        return f"it is a convolution of {rank - 2} dimensions"
    first, second, *kernel = values["weight"].shape
    inner = first // values["groups"] if values["transposed"] else second
    sizes = (inner, *kernel)
    return too_long(direct_rounds(*sizes)) if all(isinstance(size, int) for size in sizes) else None


def direct_rounds(channels: int, *kernel: int) -> int:
    """Rounds of the direct kernel: of its loops over rows of taps, taps, and input channels by four."""
    rows, columns = kernel if len(kernel) == 2 else (1, *kernel)
    return rows * (1 + columns * (1 + channels // 4))


@operator("aten.convolution.default", check=check_convolution)
def convolution(call: Call) -> None:
    """Choose the kernel by the shape."""
    if call.out.numel == 0:
        return
    sizes = Convolution.of(call)
    known = call.is_constant(call["weight"])
    if known and sizes.is_product:
        pointwise(call, sizes)
    elif known and sizes.is_depthwise:
        depthwise(call, sizes)
    elif sizes.transposed:
        transposed(call, sizes)
    elif known and sizes.has_rows:
        by_rows(call, sizes)
    else:
        y, x = (Taps(0, 1, sizes.kernel[d], -sizes.padding[d], sizes.dilation[d]) for d in range(2))
        direct(call, sizes, y, x, steps=sizes.stride, phase=(0, 0), out_step=(1, 1))


def pointwise(call: Call, sizes: Convolution) -> None:
    """Weights times pixels, for each image."""
    weight, bias = call["weight"], call["bias"]
    out, inner, pixels = sizes.out_channels, sizes.in_channels, sizes.size[0] * sizes.size[1]
    packed = call.packed(weight, "rows", lambda array: pack_rows_by_four(array.reshape(out, inner)))
    product = Product(
        m=out,
        n=pixels,
        k=inner,
        batch=sizes.batch,
        a_row=-(-inner // 4) * 4,
        a_batch=0,
        b_row=pixels,
        b_column=1,
        b_tile=32,
        b_batch=inner * pixels,
        bias=None if bias is None else (1, 0, 0),
    )
    dispatch_product(call, product, packed, call["input"], bias, call.out)


def depthwise(call: Call, sizes: Convolution) -> None:
    """Each plane by itself."""
    x, bias, out = call["input"], call["bias"], call.out
    packed = call.packed(call["weight"], "depthwise", pack_depthwise)
    (height, width), (out_height, out_width) = sizes.size, sizes.out_size
    rows = next(rows for rows in (1, 2, 4) if rows >= out_height or rows == 4)
    invocations = 8 * waves_of(call.limits)
    constants: dict[int, int | float] = {
        0: rows,
        **dict(enumerate((*sizes.kernel, *sizes.stride, *sizes.dilation, *sizes.padding), 1)),
        9: int(width % 4 == 0),
        10: int(out_width % 4 == 0),
        11: int(bias is not None),
        100: invocations,
        **activation_constants(call),
    }
    planes = sizes.batch * sizes.out_channels
    push = struct.pack("=4i3I", height, width, out_height, out_width, planes, sizes.out_channels, sizes.out_of_group)
    groups = groups_1d(planes * -(-out_height // rows) * -(-out_width // 4), invocations)
    call.dispatch(
        f"depthwise_{out.short}", [x, packed, packed if bias is None else bias], [out], push, groups, constants
    )


def by_rows(call: Call, sizes: Convolution) -> None:
    """The kernel that loads each pixel of a row once for all taps."""
    bias, out = call["bias"], call.out
    kernel, groups = sizes.kernel, sizes.groups

    def pack(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return pack_taps(array.reshape(*array.shape[:2], *kernel), groups)

    packed = call.packed(call["weight"], "taps", pack)
    constants: dict[int, int | float] = {
        0: sizes.channel_tiles,
        **dict(enumerate((*kernel, sizes.stride[1], sizes.dilation[1], sizes.padding[1]), 1)),
        6: int(sizes.size[1] % 4 == 0),
        7: int(sizes.out_size[1] % 4 == 0),
        8: int(bias is not None),
        **group_constants(call.limits),
        **activation_constants(call),
    }
    reads = [call["input"], packed, packed if bias is None else bias]
    channel_groups = groups * -(-sizes.out_of_group // (LANES * sizes.channel_tiles))
    fours, waves = sizes.out_size[0] * -(-sizes.out_size[1] // 4), waves_of(call.limits)
    shader = lane_shader(f"conv2d_rows_{out.short}", call.limits)
    rows = (sizes.stride[0], sizes.dilation[0], sizes.padding[0])
    channels = (sizes.in_of_group, sizes.out_of_group, groups)
    for first_batch, batches in slices(sizes.batch, MOST_GROUPS):
        for first, tiles in slices(-(-fours // (LANES * waves)), MOST_GROUPS):
            numbers = (*sizes.size, *sizes.out_size, *rows, first * waves, first_batch, *channels)
            call.dispatch(
                shader, reads, [out], struct.pack("=7i5I", *numbers), (channel_groups, tiles, batches), constants
            )


def transposed(call: Call, sizes: Convolution) -> None:
    """One convolution for each place of an output between two inputs."""
    for phase_y in range(min(sizes.stride[0], sizes.out_size[0])):
        for phase_x in range(min(sizes.stride[1], sizes.out_size[1])):
            y, x = (
                taps_of_phase(phase, sizes.kernel[d], sizes.stride[d], sizes.padding[d], sizes.dilation[d])
                for d, phase in enumerate((phase_y, phase_x))
            )
            if y.count == 0 or x.count == 0:  # the bias alone
                y, x = replace(y, count=0), replace(x, count=0)
            direct(call, sizes, y, x, steps=(1, 1), phase=(phase_y, phase_x), out_step=sizes.stride)


def direct(
    call: Call,
    sizes: Convolution,
    y: Taps,
    x: Taps,
    *,
    steps: tuple[int, int],
    phase: tuple[int, int],
    out_step: tuple[int, int],
) -> None:
    """One dispatch of the direct kernel, for outputs ``phase``, ``phase + out_step``, ..."""
    out, bias, weight = call.out, call["bias"], call["weight"]
    weights, strides = weights_for(call, sizes, y, x)
    require_rounds(call, direct_rounds(sizes.in_of_group, y.count, x.count))
    grid = [len(range(phase[d], sizes.out_size[d], out_step[d])) for d in range(2)]
    pixels = grid[0] * grid[1]
    if pixels == 0:
        return
    constants: dict[int, int | float] = {
        0: sizes.channel_tiles,
        1: y.count,
        2: x.count,
        3: sizes.in_of_group % 4,
        4: int(bias is not None),
        5: int(out_step == (1, 1) and pixels % 4 == 0),
        6: int(not strides),
        **group_constants(call.limits),
        **activation_constants(call),
    }
    reads = [call["input"], weights, weight if bias is None else bias]
    channel_groups = sizes.groups * -(-sizes.out_of_group // (LANES * sizes.channel_tiles))
    waves = waves_of(call.limits)
    shader = lane_shader(f"conv2d_{out.short}", call.limits)
    for first_batch, batches in slices(sizes.batch, MOST_GROUPS):
        for first, tiles in slices(-(-pixels // (PIXELS * waves)), MOST_GROUPS):
            numbers = (*sizes.size, *grid, *sizes.out_size, first * waves, first_batch)
            channels = (sizes.in_of_group, sizes.out_of_group, sizes.groups)
            places = (*steps, y.place_step, x.place_step, y.place, x.place, *out_step, *phase)
            push = struct.pack("=11I10i6I", *numbers, *channels, *places, *(strides or (0,) * 6))
            call.dispatch(shader, reads, [out], push, (channel_groups, tiles, batches), constants)


def weights_for(call: Call, sizes: Convolution, y: Taps, x: Taps) -> tuple[BoundTensor, tuple[int, ...]]:
    """The weights of some taps: packed, or as they lie with their strides if they are computed by the model."""
    weight = call["weight"]
    height, width = sizes.kernel
    if call.is_constant(weight):
        how = f"taps {y.first}:{y.count}:{y.step} {x.first}:{x.count}:{x.step}"

        def pack(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            array = array.reshape(*array.shape[:2], height, width)
            return pack_channels(by_output(array, sizes.groups, y, x) if sizes.transposed else array, sizes.groups)

        return call.packed(weight, how, pack), ()
    taps, out, inner = height * width, sizes.out_of_group, sizes.in_of_group
    steps = (inner * out, 1, out) if sizes.transposed else (inner * out, inner, 1)
    return weight, (y.first * width + x.first, *(step * taps for step in steps), y.step * width, x.step)
