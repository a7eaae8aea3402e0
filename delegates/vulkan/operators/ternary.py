"""Functions of the elements of three tensors: choice, limits that are tensors, products that are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .binary import binary, constant_number
from .elements import Operand, apply, common_kind, low_rank
from .registry import operator

if TYPE_CHECKING:
    from .call import BoundTensor, Call

__all__ = ["ternary"]

# In the order of shaders/ternary.comp.
TERNARY = {name: code for code, name in enumerate(["where", "clamp", "multiply_add", "add_product", "add_quotient"])}


def ternary(
    call: Call, function: str, a: Operand, b: Operand, c: Operand, out: BoundTensor, *, number: float = 1
) -> None:
    """Emit a function of three operands, of which one at least is a tensor."""
    kind = common_kind(out) if function == "where" else None
    apply(call, "ternary", TERNARY[function], (a, b, c), out, kind=kind, number=number)


@operator("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar", check=low_rank)
def where(call: Call) -> None:
    """The one or the other."""
    first, second = constant_number(call, call["self"]), constant_number(call, call["other"])
    ternary(call, "where", call["condition"], first, second, call.out)


@operator("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", check=low_rank)
def masked_fill(call: Call) -> None:
    """A number where a mask is true."""
    ternary(call, "where", call["mask"], constant_number(call, call["value"]), call["self"], call.out)


@operator("aten.clamp.Tensor", check=low_rank)
def clamp_tensor(call: Call) -> None:
    """Between two tensors, of which one may be missing."""
    low, high = call.get("min"), call.get("max")
    if low is None:
        binary(call, "minimum", call["self"], high, call.out)
    elif high is None:
        binary(call, "maximum", call["self"], low, call.out)
    else:
        ternary(call, "clamp", call["self"], low, high, call.out)


@operator("aten.addcmul.default", "aten.addcdiv.default", keep=True, check=low_rank)
def add_product(call: Call) -> None:
    """A product or a quotient is added."""
    function = "add_product" if call.name == "aten.addcmul.default" else "add_quotient"
    number = call.get("value")
    ternary(
        call, function, call["self"], call["tensor1"], call["tensor2"], call.out, number=1 if number is None else number
    )
