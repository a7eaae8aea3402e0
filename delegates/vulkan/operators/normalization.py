"""Softmax, and normalizations over layers, groups of channels and batches."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from .binary import binary
from .call import BoundTensor, Call, groups_1d
from .elements import PER_GROUP, TYPE, generate, is_float, tail
from .reductions import LOCAL_SIZE, LONG, Middle, reduce, row_lanes
from .registry import operator
from .ternary import ternary
from .unary import convert, unary

__all__: list[str] = []

EPSILON = {"float32": float(np.finfo(np.float32).eps), "float16": float(np.finfo(np.float16).eps)}


@operator("aten._softmax.default", "aten._log_softmax.default", "aten.softmax.int", "aten.log_softmax.int")
def softmax(call: Call) -> None:
    """Along one dimension."""
    x, out = call["self"], call.out
    if out.numel == 0:
        return
    rank = len(x.shape)
    middle = Middle(x.shape, call["dim"] % rank) if rank else Middle((1,), 0)
    if middle.inner != 1 and middle.size > LONG:
        _softmax_in_steps(call, x, call["dim"] % rank)
        return
    columns = middle.columns
    aligned = columns == 4 or (columns == 0 and middle.size % 4 == 0)
    x = x if is_float(x) else _in_floats(call, x)
    result = out if aligned or out.dtype == "float32" else call.temporary("float32", out.shape)
    push = struct.pack("<4I", x.numel, middle.outer, middle.size, middle.inner)
    constants = {
        0: int("log" in call.name),
        2: TYPE[x.dtype],
        3: TYPE[result.dtype],
        4: columns,
        5: int(aligned),
        **tail(x.numel),
    }
    if columns:
        groups = groups_1d(middle.outer * middle.inner // columns, PER_GROUP)
    else:
        groups = groups_1d(middle.outer, 1)
        constants[LOCAL_SIZE] = row_lanes(call, middle.size)
    call.dispatch("softmax", [x], [result], push, groups, constants)
    if result is not out:
        convert(call, result, out)


def _softmax_in_steps(call: Call, x: BoundTensor, dim: int) -> None:
    """Along columns that are too long for one invocation each."""
    shape = tuple(1 if d == dim else size for d, size in enumerate(x.shape))
    largest, total = (call.temporary("float32", shape) for _ in range(2))
    powers = call.temporary("float32", x.shape)
    reduce(call, "amax", x, [dim], largest)
    binary(call, "exp_difference", x, largest, powers)
    reduce(call, "sum", powers, [dim], total)
    if "log" not in call.name:
        binary(call, "div", powers, total, call.out)
        return
    logarithm, subtracted = (call.temporary("float32", shape) for _ in range(2))
    unary(call, "log", total, logarithm)
    binary(call, "add", largest, logarithm, subtracted)
    binary(call, "sub", x, subtracted, call.out)


def _in_floats(call: Call, x: BoundTensor) -> BoundTensor:
    made = call.temporary("float32", x.shape)
    convert(call, x, made)
    return made


@dataclass(frozen=True)
class Rows:
    """What is normalized together: rows of `size`, of which `groups` are a batch; `channels` of `each` in a row."""

    count: int
    size: int
    groups: int = 1
    channels: int = 1
    each: int = 1
    by_channel: bool = False


def normalize(
    call: Call,
    x: BoundTensor,
    weight: BoundTensor | None,
    bias: BoundTensor | None,
    rows: Rows,
    epsilon: float,
    out: BoundTensor,
    *,
    centered: bool = True,
    statistics: tuple[BoundTensor, BoundTensor] | None = None,
) -> None:
    """Emit the normalization of each row, and what is scaled and shifted after it."""
    if out.numel == 0:
        if statistics is not None and statistics[0].numel:
            _statistics_of_nothing(call, statistics, epsilon)
        return
    aligned = rows.size % 4 == 0 and (not rows.by_channel or rows.each % 4 == 0)
    result = out if out.dtype == "float32" or rows.size % 4 == 0 else call.temporary("float32", out.shape)
    known = weight or bias or x
    means, deviations = (
        (result, result) if statistics is None else (_wide(call, statistics[0]), _wide(call, statistics[1]))
    )
    push = struct.pack("<6If", x.numel, rows.count, rows.size, rows.groups, rows.channels, rows.each, epsilon)
    constants = {
        0: int(centered),
        1: int(rows.by_channel),
        2: TYPE[x.dtype],
        3: TYPE[result.dtype],
        4: TYPE[known.dtype],
        5: int(weight is not None),
        6: int(bias is not None),
        7: int(statistics is not None),
        8: int(aligned),
        LOCAL_SIZE: row_lanes(call, rows.size),
        **tail(x.numel),
    }
    reads = [x, known if weight is None else weight, known if bias is None else bias]
    call.dispatch("normalize", reads, [result, means, deviations], push, groups_1d(rows.count, 1), constants)
    if result is not out:
        convert(call, result, out)
    for tensor, wide in zip(statistics or (), (means, deviations), strict=False):
        if wide is not tensor:
            convert(call, wide, tensor)


def _wide(call: Call, tensor: BoundTensor) -> BoundTensor:
    return tensor if tensor.dtype == "float32" else call.temporary("float32", tensor.shape)


def _statistics_of_nothing(call: Call, statistics: tuple[BoundTensor, BoundTensor], epsilon: float) -> None:
    """As PyTorch has them: means of zero, or none where there is nothing to divide by."""
    generate(call, statistics[0], 0)
    generate(call, statistics[1], 1 / math.sqrt(epsilon) if epsilon > 0 else math.inf)


def check_weights(arguments: dict[str, Any]) -> str | None:
    """Refuse weights of two dtypes."""
    weight, bias = arguments.get("weight"), arguments.get("bias")
    if weight is not None and bias is not None and weight.dtype != bias.dtype:
        return f"weights of {weight.dtype} and {bias.dtype}"
    return None


@operator("aten.native_layer_norm.default", check=check_weights)
@operator("aten.layer_norm.default", check=check_weights, keep=True)
def layer_norm(call: Call) -> None:
    """Over the last dimensions."""
    x = call["input"]
    size = math.prod(call["normalized_shape"])
    rows = Rows(x.numel // max(size, 1), size)
    statistics = call.outs[1:3] if call.name == "aten.native_layer_norm.default" else ()
    normalize(
        call,
        x,
        call.get("weight"),
        call.get("bias"),
        rows,
        call["eps"],
        call.out,
        statistics=(statistics[0], statistics[1]) if statistics else None,
    )


@operator("aten.rms_norm.default", keep=True)
def rms_norm(call: Call) -> None:
    """Over the last dimensions, without a mean."""
    x = call["input"]
    size = math.prod(call["normalized_shape"])
    epsilon = call.get("eps")
    rows = Rows(x.numel // max(size, 1), size)
    normalize(
        call,
        x,
        call.get("weight"),
        None,
        rows,
        EPSILON[x.dtype] if epsilon is None else epsilon,
        call.out,
        centered=False,
    )


@operator("aten.native_group_norm.default", check=check_weights)
@operator("aten.group_norm.default", check=check_weights, keep=True)
def group_norm(call: Call) -> None:
    """Over groups of channels, of which each has a weight."""
    whole = call.name == "aten.group_norm.default"
    x = call["input"]
    groups = call["num_groups"] if whole else call["group"]
    batch, channels = x.shape[0], x.shape[1]
    each = math.prod(x.shape[2:])
    rows = Rows(batch * groups, channels // groups * each, groups, channels // groups, each, by_channel=True)
    statistics = None if whole else (call.outs[1], call.outs[2])
    normalize(call, x, call.get("weight"), call.get("bias"), rows, call["eps"], call.out, statistics=statistics)


def check_training(arguments: dict[str, Any]) -> str | None:
    """Refuse to find means and variances of a batch."""
    return "it is training" if arguments.get("training") or arguments.get("running_mean") is None else None


@operator("aten._native_batch_norm_legit_no_training.default")
@operator("aten.batch_norm.default", check=check_training, keep=True)
def batch_norm(call: Call) -> None:
    """With given means and variances: each channel is multiplied with a number, and one is added."""
    x = call["input"]
    if call.out.numel == 0:
        return
    shape = (x.shape[1], *[1] * (len(x.shape) - 2))
    weight, bias, mean, variance = (call.get(name) for name in ("weight", "bias", "running_mean", "running_var"))
    known = all(tensor is None or call.is_constant(tensor) for tensor in (weight, bias, mean, variance))
    scale, shift = (_known_scales if known else _computed_scales)(call, weight, bias, mean, variance, call["eps"])
    scale, shift = (_view(call, tensor, shape) for tensor in (scale, shift))
    ternary(call, "multiply_add", x, scale, shift, call.out)


def _view(call: Call, tensor: BoundTensor, shape: tuple[int, ...]) -> BoundTensor:
    view = call.temporary(tensor.dtype, shape)
    call.alias(view, tensor)
    return view


def _known_scales(
    call: Call,
    weight: BoundTensor | None,
    bias: BoundTensor | None,
    mean: BoundTensor,
    variance: BoundTensor,
    epsilon: float,
) -> tuple[BoundTensor, BoundTensor]:
    """Numbers for each channel, from constants."""

    def scales(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        factor = 1 / np.sqrt(array.astype(np.float64) + epsilon)
        return factor if weight is None else factor * call.array(weight).astype(np.float64)

    def shifts(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        shifted = -call.array(mean).astype(np.float64) * scales(array)
        return shifted if bias is None else shifted + call.array(bias).astype(np.float64)

    names = f"{weight and weight.number} {bias and bias.number} {mean.number} {epsilon}"
    scale = call.packed(variance, f"batch norm's scales {names}", lambda array: scales(array).astype(np.float32))
    shift = call.packed(variance, f"batch norm's shifts {names}", lambda array: shifts(array).astype(np.float32))
    return scale, shift


def _computed_scales(
    call: Call,
    weight: BoundTensor | None,
    bias: BoundTensor | None,
    mean: BoundTensor,
    variance: BoundTensor,
    epsilon: float,
) -> tuple[BoundTensor, BoundTensor]:
    """Numbers for each channel, when the model runs."""
    scale, shift = (call.temporary("float32", mean.shape) for _ in range(2))
    inverse, product = (call.temporary("float32", mean.shape) for _ in range(2))
    plain = call.temporary("float32", mean.shape)
    binary(call, "add", variance, epsilon, plain)
    unary(call, "rsqrt", plain, inverse)
    binary(call, "mul", inverse, 1.0 if weight is None else weight, scale)
    binary(call, "mul", mean, scale, product)
    if bias is None:
        unary(call, "neg", product, shift)
    else:
        binary(call, "sub", bias, product, shift)
    return scale, shift
