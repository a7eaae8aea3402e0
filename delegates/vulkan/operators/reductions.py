"""Reductions of dimensions: sums, products, extremes, their places, variances, and whether any or all are true."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from .binary import binary
from .call import BoundTensor, Call, groups_1d
from .elements import FLOAT, INT, PER_GROUP, TYPE, common_kind, generate, tail
from .registry import operator
from .rounds import require_rounds
from .unary import convert

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Middle", "reduce", "row_lanes", "writable"]

LOCAL_SIZE = 100  # id of the specialization constant
# In the order of shaders/reduce.comp, with what they are of nothing.
REDUCTIONS = {"sum": 0, "prod": 1, "amax": 2, "amin": 3}
OF_NOTHING = {"sum": 0, "prod": 1}
CHUNK = 4096  # elements that are added up one after another, at most
FEW = 64  # workgroups or fewer leave a device idle
CHUNK_OF_SCAN = 4096
LONGEST_SHARE = 1 << 16  # elements of a row that an invocation has, while a workgroup can have more invocations
LONG = 4096  # columns beyond are not left to one invocation; lavapipe ends loops after 65535 rounds


class Middle:
    """A shape as (outer, size, inner) around one dimension, or several neighbours."""

    def __init__(self, shape: Sequence[int], first: int, last: int | None = None) -> None:
        last = first if last is None else last
        self.outer = math.prod(shape[:first])
        self.size = math.prod(shape[first : last + 1])
        self.inner = math.prod(shape[last + 1 :])

    @property
    def columns(self) -> int:
        """How many columns an invocation goes down: 0 for rows."""
        return 0 if self.inner == 1 else 4 if self.inner % 4 == 0 else 1


def row_lanes(call: Call, size: int) -> int:
    """Invocations of a workgroup that goes along a row up to three times: a power of two, each with fours of elements.

    Raises
    ------
    Error
        The row is so long that the device's largest workgroup takes too many rounds.
    """
    lanes, most = 8, call.limits.get("maxComputeWorkGroupInvocations", 128)
    while (lanes < 128 and size > lanes * 32) or (2 * lanes <= most and size > lanes * LONGEST_SHARE):
        lanes *= 2
    require_rounds(call, 3 * (size // (4 * lanes)))
    return lanes


def writable(tensor: BoundTensor) -> bool:
    """Whether invocations can write single elements."""
    return tensor.dtype in ("float32", "int32", "int64")


def dims_of(argument: Any, rank: int) -> list[int]:
    """Dimensions counted from the front, in order; all of them for None or an empty list."""
    if argument is None or (isinstance(argument, list | tuple) and not argument):
        return list(range(rank))
    if isinstance(argument, int):
        argument = [argument]
    return sorted({dim % rank if rank else 0 for dim in argument}) if rank else []


def neighbours(dims: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of dimensions, as the first and the last of each."""
    runs: list[tuple[int, int]] = []
    for dim in dims:
        if runs and runs[-1][1] == dim - 1:
            runs[-1] = (runs[-1][0], dim)
        else:
            runs.append((dim, dim))
    return runs


def reduce(
    call: Call,
    function: str,
    x: BoundTensor,
    dims: Sequence[int],
    out: BoundTensor,
    *,
    scale: float = 1.0,
    nonzero: bool = False,
) -> None:
    """Emit a reduction.

    Parameters
    ----------
    function
        By its name in `REDUCTIONS`.
    dims
        Dimensions of `x`, in order.
    out
        Of the size of what is left.
    scale
        What a sum of floats is multiplied with.
    nonzero
        Reduce whether elements are not zero.
    """
    if out.numel == 0:
        return
    if x.numel == 0:
        generate(call, out, OF_NOTHING.get(function, function == "amin"))
        return
    kind = INT if nonzero else common_kind(x, out)
    wide = "float32" if kind == FLOAT else "int32"
    shape = list(x.shape)
    runs = neighbours(dims) or [(0, -1)]
    for i, (first, last) in enumerate(reversed(runs)):  # what is left of the others stays where it is
        middle = Middle(shape, first, last) if last >= first else Middle((math.prod(shape), 1), 1)
        shape[first : last + 1] = [1] * (last + 1 - first)
        final = i == len(runs) - 1
        result = out if final and writable(out) else call.temporary(wide, shape)
        _reduce_middle(call, function, x, middle, result, scale if final else 1.0, nonzero and i == 0)
        x = result
    if x is not out:
        convert(call, x, out)


def chunks_of(middle: Middle) -> int:
    """Into how many pieces to cut the reduced dimension."""
    work = middle.outer if middle.inner == 1 else -(-middle.outer * middle.inner // (4 * PER_GROUP))
    wanted = -(-FEW // max(work, 1)) if work < FEW else 1
    least = -(-middle.size // CHUNK)
    return max(least, min(wanted, middle.size // 512), 1)


def _reduce_middle(
    call: Call, function: str, x: BoundTensor, middle: Middle, out: BoundTensor, scale: float, nonzero: bool
) -> None:
    kind = common_kind(x) if nonzero else common_kind(x, out)
    chunks = chunks_of(middle)
    step = -(-middle.size // chunks)
    step += -step % 4
    if chunks > 1:
        wide = "int32" if nonzero or kind == INT else "float32"
        partial = call.temporary(wide, (middle.outer, chunks, middle.inner))
        _dispatch(call, function, x, middle, chunks, step, partial, 1.0, nonzero)
        _reduce_middle(call, function, partial, Middle(partial.shape, 1), out, scale, False)
    else:
        _dispatch(call, function, x, middle, 1, step, out, scale, nonzero)


def _dispatch(
    call: Call,
    function: str,
    x: BoundTensor,
    middle: Middle,
    chunks: int,
    step: int,
    out: BoundTensor,
    scale: float,
    nonzero: bool,
) -> None:
    push = struct.pack("<6If", x.numel, middle.outer, middle.size, middle.inner, chunks, step, scale)
    constants = {
        0: REDUCTIONS[function],
        1: common_kind(x) if nonzero else common_kind(x, out),
        2: TYPE[x.dtype],
        3: TYPE[out.dtype],
        4: int(nonzero),
        5: middle.columns,
        **tail(x.numel),
    }
    if middle.columns:
        groups = groups_1d(middle.outer * chunks * middle.inner // middle.columns, PER_GROUP)
    else:
        groups = groups_1d(middle.outer * chunks, 1)
        constants[LOCAL_SIZE] = row_lanes(call, step)
    call.dispatch("reduce", [x], [out], push, groups, constants)


@operator("aten.sum.default", "aten.sum.dim_IntList", "aten.sum.IntList")
def sum_(call: Call) -> None:
    """Over some dimensions or all."""
    x = call["self"]
    reduce(call, "sum", x, dims_of(call.get("dim"), len(x.shape)), call.out)


@operator("aten.mean.default", "aten.mean.dim")
def mean(call: Call) -> None:
    """Over some dimensions or all; NaN of nothing."""
    x = call["self"]
    dims = dims_of(call.get("dim"), len(x.shape))
    count = math.prod(x.shape[dim] for dim in dims)
    if count == 0:
        generate(call, call.out, math.nan)
    else:
        reduce(call, "sum", x, dims, call.out, scale=1 / count)


@operator("aten.prod.default", "aten.prod.dim_int")
def prod(call: Call) -> None:
    """Over one dimension or all."""
    x = call["self"]
    reduce(call, "prod", x, dims_of(call.get("dim"), len(x.shape)), call.out)


@operator("aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default")
def extreme(call: Call) -> None:
    """Over some dimensions or all."""
    x = call["self"]
    function = "amax" if "max" in call.name else "amin"
    reduce(call, function, x, dims_of(call.get("dim"), len(x.shape)), call.out)


@operator("aten.any.default", "aten.any.dim", "aten.any.dims", "aten.all.default", "aten.all.dim", "aten.all.dims")
def truth(call: Call) -> None:
    """Whether any is, or all are."""
    x = call["self"]
    function = "amax" if "any" in call.name else "amin"
    reduce(call, function, x, dims_of(call.get("dim"), len(x.shape)), call.out, nonzero=True)


@operator("aten.var.correction", "aten.var.dim", "aten.var.default")
def variance(call: Call) -> None:
    """From the squares of what is left without the mean."""
    x = call["self"]
    rank = len(x.shape)
    dims = dims_of(call.get("dim"), rank)
    count = math.prod(x.shape[dim] for dim in dims)
    correction = call.get("correction")
    if correction is None:
        correction = 1 if call.get("unbiased", True) else 0
    if count - correction <= 0:
        generate(call, call.out, math.nan)
        return
    kept = tuple(1 if dim in dims else size for dim, size in enumerate(x.shape))
    average, squares = call.temporary("float32", kept), call.temporary("float32", x.shape)
    reduce(call, "sum", x, dims, average, scale=1 / count)
    binary(call, "squared_difference", x, average, squares)
    reduce(call, "sum", squares, dims, call.out, scale=1 / (count - correction))


@operator("aten.argmax.default", "aten.argmin.default")
def arg_extreme(call: Call) -> None:
    """The place along a dimension, or among all elements."""
    _arg_extreme(call, "argmax" in call.name, call["self"], call.get("dim"), call.out)


@operator("aten.max.dim", "aten.min.dim")
def extreme_and_place(call: Call) -> None:
    """The extreme along a dimension, and its place."""
    x = call["self"]
    largest = ".max." in call.name
    reduce(call, "amax" if largest else "amin", x, dims_of(call["dim"], len(x.shape)), call.outs[0])
    _arg_extreme(call, largest, x, call["dim"], call.outs[1])


def _arg_extreme(call: Call, largest: bool, x: BoundTensor, dim: int | None, out: BoundTensor) -> None:
    if out.numel == 0 or x.numel == 0:
        return
    rank = len(x.shape)
    middle = Middle(x.shape, dim % rank) if dim is not None and rank else Middle((1, x.numel), 1)
    push = struct.pack("<4I", x.numel, middle.outer, middle.size, middle.inner)
    constants = {
        0: int(largest),
        1: common_kind(x),
        2: TYPE[x.dtype],
        3: TYPE[out.dtype],
        4: 0 if middle.inner == 1 else 2 if middle.size > LONG else 1,
        **tail(x.numel),
    }
    together = constants[4] != 1
    if together:
        constants[LOCAL_SIZE] = row_lanes(call, middle.size)
    groups = groups_1d(middle.outer * middle.inner, 1 if together else PER_GROUP)
    call.dispatch("arg_reduce", [x], [out], push, groups, constants)


@operator("aten.cumsum.default")
def cumsum(call: Call) -> None:
    """Running sums along a dimension."""
    x, out = call["self"], call.out
    if out.numel == 0:
        return
    rank = len(x.shape)
    middle = Middle(x.shape, call["dim"] % rank) if rank else Middle((1,), 0)
    result = out
    if not writable(out):
        result = call.temporary("float32" if common_kind(x, out) == FLOAT else "int32", out.shape)
    _scan(call, x, middle, result)
    if result is not out:
        convert(call, result, out)


def _scan(call: Call, x: BoundTensor, middle: Middle, out: BoundTensor) -> None:
    """Long columns in chunks, from running sums of the sums of these."""
    kind = common_kind(x, out)
    step = CHUNK_OF_SCAN
    chunks = -(-middle.size // step)
    sums = x
    if chunks > 1:
        wide = "float32" if kind == FLOAT else "int32"
        shape = (middle.outer, chunks, middle.inner)
        own, sums = call.temporary(wide, shape), call.temporary(wide, shape)
        _dispatch(call, "sum", x, middle, chunks, step, own, 1.0, False)
        _scan(call, own, Middle(shape, 1), sums)
    push = struct.pack("<5I", middle.outer, middle.size, middle.inner, chunks, step)
    constants = {1: kind, 2: TYPE[x.dtype], 3: TYPE[out.dtype], 4: int(chunks > 1), **tail(x.numel)}
    groups = groups_1d(middle.outer * chunks * middle.inner, PER_GROUP)
    call.dispatch("scan", [x, sums], [out], push, groups, constants)
