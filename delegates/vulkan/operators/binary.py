"""Functions of the elements of two tensors, or of a tensor and a number: arithmetic, comparisons, logic."""

from __future__ import annotations

import numpy as np

from .call import BoundTensor, Call
from .elements import FLOAT, Operand, apply, common_kind, generate, is_float, low_rank
from .lanes import activation_constants
from .registry import operator
from .unary import unary

__all__ = ["binary"]

# In the order of shaders/binary.comp.
BINARY = {
    name: code
    for code, name in enumerate(
        [
            "add",
            "sub",
            "mul",
            "div",
            "div_trunc",
            "div_floor",
            "maximum",
            "minimum",
            "pow",
            "remainder",
            "fmod",
            "squared_difference",
            "exp_difference",
            "prelu",
            "atan2",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "logical_and",
            "logical_or",
            "logical_xor",
        ]
    )
}


def binary(
    call: Call,
    function: str,
    a: Operand,
    b: Operand,
    out: BoundTensor,
    *,
    number: float = 1,
    kind: int | None = None,
) -> None:
    """Emit a function of two operands, of which one at least is a tensor.

    Parameters
    ----------
    function
        By its name in `BINARY`.
    number
        What `b` is multiplied with in additions and subtractions.
    kind
        What to compute with; by default what operands and result ask for.
    """
    more = activation_constants(call)
    apply(call, "binary", BINARY[function], (a, b), out, kind=kind, number=number, more=more)


def constant_number(call: Call, operand: Operand) -> Operand:
    """The number in a constant of one element, so that nothing has to read it; else the operand."""
    if isinstance(operand, BoundTensor) and operand.numel == 1 and call.is_constant(operand):
        number = call.array(operand).reshape(-1)[0]
        return float(number) if is_float(operand) else int(number)
    return operand


def _operands(call: Call) -> tuple[Operand, Operand]:
    a, b = call["self"], call["other"]
    return (
        (constant_number(call, a), b) if isinstance(b, BoundTensor) and b.numel != 1 else (a, constant_number(call, b))
    )


def _register(function: str, *names: str, keep: bool = False) -> None:
    @operator(*names, check=low_rank, keep=keep)
    def emit(call: Call) -> None:
        a, b = _operands(call)
        number = call.get("alpha")
        binary(call, function, a, b, call.out, number=1 if number is None else number)


for _name in ("add", "sub", "mul"):
    _register(_name, f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")
for _name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor", "atan2"):
    _register(_name, f"aten.{_name}.default")
for _name in ("remainder", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor"):
    _register(_name, f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")
_register("remainder", "aten.remainder.Scalar_Tensor")
_register("div_floor", "aten.floor_divide.default")


@operator("aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode", check=low_rank)
def div(call: Call) -> None:
    """Exact, or rounded towards zero or downwards."""
    function = {None: "div", "trunc": "div_trunc", "floor": "div_floor"}[call.get("rounding_mode")]
    binary(call, function, *_operands(call), call.out)


@operator("aten.rsub.Scalar", "aten.rsub.Tensor", check=low_rank)
def rsub(call: Call) -> None:
    """The other minus self."""
    number = call.get("alpha")
    binary(call, "sub", call["other"], call["self"], call.out, number=1 if number is None else number)


def _as_half(operand: Operand, other: Operand) -> Operand:
    """A number that is compared with halves becomes one first."""
    if not isinstance(operand, BoundTensor) and isinstance(other, BoundTensor) and other.dtype == "float16":
        with np.errstate(over="ignore"):
            return float(np.float16(operand))
    return operand


@operator(
    *(f"aten.{name}.{overload}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for overload in ("Tensor", "Scalar")),
    check=low_rank,
)
def compare(call: Call) -> None:
    """One of six comparisons, of floats if any operand is one."""
    a, b = _operands(call)
    kind = common_kind(call["self"], call["other"])
    binary(call, call.name.split(".")[1], _as_half(a, b), _as_half(b, a), call.out, kind=kind)


@operator("aten.prelu.default", "aten._prelu_kernel.default", keep=True)
def prelu(call: Call) -> None:
    """A slope for negative numbers, one for all or one for each channel."""
    x, slope = call["self"], call["weight"]
    if call.name == "aten.prelu.default" and len(x.shape) > 1 and slope.numel > 1:
        by_channel = call.temporary(slope.dtype, (slope.numel, *[1] * (len(x.shape) - 2)))
        call.alias(by_channel, slope)
        slope = by_channel
    binary(call, "prelu", x, slope, call.out)


POWERS = {0.5: "sqrt", 1.0: "copy", 2.0: "square", 3.0: "cube", -0.5: "rsqrt", -1.0: "reciprocal"}


@operator("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar", check=low_rank)
def power(call: Call) -> None:
    """By a faster function where the exponent is a number that has one."""
    base, exponent = call["self"], call["exponent"]
    if isinstance(base, BoundTensor):
        exponent = constant_number(call, exponent)
    if not isinstance(exponent, BoundTensor):
        if exponent == 0:
            return generate(call, call.out, 1)
        function = POWERS.get(float(exponent))
        if function is not None and (common_kind(base, call.out) == FLOAT or exponent > 0):
            return unary(call, function, base, call.out)
    return binary(call, "pow", base, exponent, call.out)
