"""Tensors made of numbers: full and its like, ranges."""

from __future__ import annotations

from typing import Any

from .call import BoundTensor, Call
from .elements import apply, common_kind, generate, numbers_fit
from .registry import operator

__all__: list[str] = []


def _refuse(arguments: dict[str, Any]) -> str | None:
    return numbers_fit({name: argument for name, argument in arguments.items() if name != "size"})


@operator(
    "aten.full.default",
    "aten.full_like.default",
    "aten.new_full.default",
    "aten.fill.Scalar",
    "aten.fill.Tensor",
    check=_refuse,
)
def full(call: Call) -> None:
    """One number everywhere."""
    number = call["value"] if "fill." in call.name else call["fill_value"]
    if isinstance(number, BoundTensor):
        apply(call, "binary", 0, (number, 0), call.out, kind=common_kind(number), number=0)
    else:
        generate(call, call.out, number)


@operator("aten.scalar_tensor.default", check=_refuse)
def scalar_tensor(call: Call) -> None:
    """A number as a tensor."""
    generate(call, call.out, call["s"])


@operator(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "dim_order_ops._empty_dim_order.default",
    check=_refuse,
)
def zeros(call: Call) -> None:
    """Zeros, also where PyTorch leaves open what there is."""
    generate(call, call.out, 0)


@operator("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default", check=_refuse)
def ones(call: Call) -> None:
    """Ones."""
    generate(call, call.out, 1)


@operator("aten.arange.default", "aten.arange.start", "aten.arange.start_step", check=_refuse)
def arange(call: Call) -> None:
    """Numbers from the start by the step; the size of the result says where they end."""
    generate(call, call.out, call.get("start", 0) or 0, _step(call))


def _step(call: Call) -> float:
    step = call.get("step", 1)
    return 1 if step is None else step
