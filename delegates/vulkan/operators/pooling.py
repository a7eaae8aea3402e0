"""Pooling of planes: maximum and mean, by windows or adaptive."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .call import groups_1d
from .lanes import waves_of
from .reductions import reduce
from .registry import operator
from .rounds import require_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .call import Call

__all__ = ["adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool2d", "max_pool2d"]

LARGE = 1024  # elements of a plane beyond which one invocation does not do for it
FLOATS = {"torch.float32", "torch.float16"}


def check_floats(values: dict[str, Any]) -> str | None:
    """Shaders pool floating-point numbers."""
    dtype = str(values["self"].dtype)
    return None if dtype in FLOATS else f"it pools {dtype}"


def pair(given: Sequence[int] | int | None, default: tuple[int, int]) -> tuple[int, int]:
    """A size for both dimensions, as PyTorch lets one give it."""
    if not given:
        return default
    values = [int(given)] if isinstance(given, int) else [int(value) for value in given]
    return values[0], values[-1]


def pool(call: Call, window: tuple[int, int], constants: dict[int, int | float]) -> None:
    """Emit the pooling of all planes by windows of at most that size; a second result has the places of the maxima."""
    x, out = call["self"], call.out
    if out.numel == 0:
        return
    require_rounds(call, window[0] * (1 + window[1]))
    invocations = 8 * waves_of(call.limits)
    places = call.outs[1] if len(call.outs) > 1 else out
    constants = {**constants, 2: int(len(call.outs) > 1), 13: int(all_inside(call, constants)), 100: invocations}
    push = struct.pack("=4iI", *x.shape[-2:], *out.shape[-2:], out.numel)
    call.dispatch(f"pool_{out.short}", [x], [out, places], push, groups_1d(out.numel, invocations), constants)


def all_inside(call: Call, constants: dict[int, int | float]) -> bool:
    """Whether no window of a pooling with these constants of the shader reaches beyond its plane."""
    if constants.get(1):
        return False
    sizes = [int(constants.get(place, default)) for place, default in enumerate((1, 1, 1, 1, 0, 0, 1, 1), 3)]
    extents = zip(call["self"].shape[-2:], call.out.shape[-2:], strict=True)
    return all(
        padding == 0 and (outputs - 1) * stride + (window - 1) * dilation < extent
        for (extent, outputs), window, stride, padding, dilation in zip(
            extents, sizes[:2], sizes[2:4], sizes[4:6], sizes[6:], strict=True
        )
    )


@operator("aten.max_pool2d_with_indices.default", "aten.max_pool2d.default", check=check_floats)
def max_pool2d(call: Call) -> None:
    """The largest of each window; NaN if there is one."""
    window = pair(call["kernel_size"], (1, 1))
    sizes = (
        *window,
        *pair(call["stride"], window),
        *pair(call["padding"], (0, 0)),
        *pair(call["dilation"], (1, 1)),
    )
    pool(call, window, {0: 1, **dict(enumerate(sizes, 3))})


@operator("aten.avg_pool2d.default", check=check_floats)
def avg_pool2d(call: Call) -> None:
    """The mean of each window."""
    window = pair(call["kernel_size"], (1, 1))
    sizes = (*window, *pair(call["stride"], window), *pair(call["padding"], (0, 0)))
    divisor = int(call["divisor_override"] or 0)
    pool(call, window, {0: 0, **dict(enumerate(sizes, 3)), 11: int(call["count_include_pad"]), 12: divisor})


def adaptive_window(call: Call) -> tuple[int, int]:
    """The most rows and columns that an output sees."""
    sizes = zip(call["self"].shape[-2:], call.out.shape[-2:], strict=True)
    rows, columns = (-(-size // max(outputs, 1)) + 1 for size, outputs in sizes)
    return rows, columns


@operator("aten._adaptive_avg_pool2d.default", "aten.adaptive_avg_pool2d.default", check=check_floats)
def adaptive_avg_pool2d(call: Call) -> None:
    """The mean of as many windows as outputs are asked for."""
    x, out = call["self"], call.out
    pixels = x.shape[-2] * x.shape[-1]
    if tuple(out.shape[-2:]) == (1, 1) and pixels > LARGE:
        rank = len(x.shape)
        reduce(call, "sum", x, [rank - 2, rank - 1], out, scale=1 / pixels)
    else:
        pool(call, adaptive_window(call), {0: 0, 1: 1, 11: 0})


@operator("aten.adaptive_max_pool2d.default", check=check_floats)
def adaptive_max_pool2d(call: Call) -> None:
    """The largest of as many windows as outputs are asked for."""
    pool(call, adaptive_window(call), {0: 1, 1: 1})
