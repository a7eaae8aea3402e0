"""Functions of the elements of one tensor: arithmetic, activations, predicates, conversions."""

from __future__ import annotations

import math
import struct

from .call import BoundTensor, Call, groups_1d
from .elements import INT, PER_GROUP, TYPE, bits_of, common_kind, tail
from .registry import operator

__all__ = ["convert", "unary"]

# In the order of shaders/unary.comp.
UNARY = {
    name: code
    for code, name in enumerate(
        [
            "copy",
            "abs",
            "neg",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sin",
            "cos",
            "tanh",
            "sigmoid",
            "relu",
            "clamp",
            "gelu",
            "gelu_tanh",
            "silu",
            "hardswish",
            "hardsigmoid",
            "leaky_relu",
            "elu",
            "floor",
            "ceil",
            "round",
            "trunc",
            "erf",
            "square",
            "softplus",
            "mish",
            "sign",
            "log2",
            "log10",
            "log1p",
            "expm1",
            "exp2",
            "tan",
            "atan",
            "cube",
            "scale",
            "bitwise_not",
            "sinh",
            "cosh",
            "asin",
            "acos",
            "logical_not",
            "isnan",
            "isinf",
        ]
    )
}
INFINITY = math.inf


def unary(
    call: Call, function: str, x: BoundTensor, out: BoundTensor, p: float = 0, q: float = 0, r: float = 0
) -> None:
    """Emit a function of each element, computed as floats if `x` or `out` is of floats."""
    kind = common_kind(x, out)
    push = struct.pack("<4I", out.numel, *(bits_of(number, kind) for number in (p, q, r)))
    constants = {0: UNARY[function], 1: kind, 2: TYPE[x.dtype], 3: TYPE[out.dtype], **tail(out.numel)}
    groups = groups_1d(-(-out.numel // 4), PER_GROUP)
    call.dispatch("unary", [x], [out], push, groups, constants, replaceable=[x] if x.nbytes == out.nbytes else [])


def convert(call: Call, x: BoundTensor, out: BoundTensor) -> None:
    """Emit a conversion to another dtype."""
    unary(call, "copy", x, out)


def _register(function: str, *names: str, keep: bool = False) -> None:
    @operator(*names, keep=keep)
    def emit(call: Call) -> None:
        unary(call, function, call["self"], call.out)


for _name in [
    "abs",
    "neg",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "atan",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "tanh",
    "sigmoid",
    "relu",
    "floor",
    "ceil",
    "round",
    "trunc",
    "erf",
    "sign",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "logical_not",
    "bitwise_not",
    "isnan",
    "isinf",
]:
    _register(_name, f"aten.{_name}.default")
for _name in ("silu", "hardswish", "hardsigmoid", "square", "mish", "exp2"):
    _register(_name, f"aten.{_name}.default", keep=True)


@operator("aten.relu6.default", keep=True)
def relu6(call: Call) -> None:
    """Between 0 and 6."""
    unary(call, "clamp", call["self"], call.out, 0, 6)


@operator("aten.hardtanh.default")
def hardtanh(call: Call) -> None:
    """Between two numbers."""
    unary(call, "clamp", call["self"], call.out, call.get("min_val", -1), call.get("max_val", 1))


@operator("aten.clamp.default")
def clamp(call: Call) -> None:
    """Between two numbers, of which one may be missing."""
    low, high = call.get("min"), call.get("max")
    whole = common_kind(call["self"], call.out) == INT
    low = (-(1 << 31) if whole else -INFINITY) if low is None else low
    high = ((1 << 31) - 1 if whole else INFINITY) if high is None else high
    unary(call, "clamp", call["self"], call.out, low, high)


@operator("aten.clamp_min.default")
def clamp_min(call: Call) -> None:
    """At least a number."""
    unary(call, "clamp", call["self"], call.out, call["min"], INFINITY if common_kind(call.out) != INT else 1 << 31)


@operator("aten.clamp_max.default")
def clamp_max(call: Call) -> None:
    """At most a number."""
    unary(call, "clamp", call["self"], call.out, -INFINITY if common_kind(call.out) != INT else -(1 << 31), call["max"])


@operator("aten.gelu.default", keep=True)
def gelu(call: Call) -> None:
    """Both forms."""
    unary(call, "gelu_tanh" if call.get("approximate", "none") == "tanh" else "gelu", call["self"], call.out)


@operator("aten.leaky_relu.default", keep=True)
def leaky_relu(call: Call) -> None:
    """A slope for negative numbers."""
    unary(call, "leaky_relu", call["self"], call.out, call.get("negative_slope", 0.01))


@operator("aten.elu.default", keep=True)
def elu(call: Call) -> None:
    """With its three numbers."""
    unary(call, "elu", call["self"], call.out, call.get("alpha", 1), call.get("scale", 1), call.get("input_scale", 1))


@operator("aten.softplus.default", keep=True)
def softplus(call: Call) -> None:
    """The number itself beyond the threshold."""
    unary(call, "softplus", call["self"], call.out, call.get("beta", 1), call.get("threshold", 20))


@operator("aten._to_copy.default", "aten.to.dtype", "dim_order_ops._to_dim_order_copy.default")
def to_dtype(call: Call) -> None:
    """Another dtype; the same bytes if there is nothing to convert."""
    x = call["self"]
    if x.dtype == call.out.dtype:
        call.alias(call.out, x)
    else:
        convert(call, x, call.out)
