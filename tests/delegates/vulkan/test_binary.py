"""Functions of two and three tensors of the Vulkan delegate that are broadcast to one another, against PyTorch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from etarena.delegates.vulkan.operators.registry import all_operators
from tests.delegates.vulkan.test_unary import random
from tests.helpers.vulkan_operators import OperatorRunner, compare_exported

SPECIAL = torch.tensor([0.0, -0.0, 1, -1, 2, -2, 0.5, 3, -3, -2.5, math.inf, -math.inf, math.nan])
ARITHMETIC = ["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum.default", "minimum.default"]
HARD = ["pow.Tensor_Tensor", "remainder.Tensor", "fmod.Tensor", "floor_divide.default", "atan2.default"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGIC = ["logical_and.default", "logical_or.default", "logical_xor.default"]
BITS = ["bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"]
WHOLE = [torch.int32, torch.int64, torch.int8, torch.uint8]


@st.composite
def broadcast_shapes(draw: st.DrawFn, operands: int) -> list[list[int]]:
    """Shapes that are broadcast to one another, of up to six dimensions."""
    sizes = draw(
        st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 8, 12]), max_size=6).filter(lambda s: math.prod(s) < 20_000)
    )
    shapes = []
    for _ in range(operands):
        shape = [size if draw(st.booleans()) or draw(st.booleans()) else 1 for size in sizes]
        shapes.append(shape[draw(st.integers(0, len(shape))) if draw(st.booleans()) else 0 :])
    return shapes


@settings(max_examples=60)
@given(shapes=broadcast_shapes(2))
def test_broadcasting(runner: OperatorRunner, shapes: list[list[int]]) -> None:
    a, b = (random(*shape, seed=i) for i, shape in enumerate(shapes))
    runner.compare("aten.sub.Tensor", a, b)


@settings(max_examples=30)
@given(shapes=broadcast_shapes(2), dtypes=st.tuples(*[st.sampled_from([torch.float16, torch.int64, torch.bool])] * 2))
def test_broadcasting_of_several_dtypes(
    runner: OperatorRunner, shapes: list[list[int]], dtypes: tuple[torch.dtype, torch.dtype]
) -> None:
    a, b = (random(*shape, dtype=dtype, seed=i) for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)))
    runner.compare("aten.mul.Tensor", a, b)


@settings(max_examples=40)
@given(shapes=broadcast_shapes(3))
def test_choice(runner: OperatorRunner, shapes: list[list[int]]) -> None:
    condition, a, b = (random(*shape, seed=i) for i, shape in enumerate(shapes))
    runner.compare("aten.where.self", condition > 0, a, b)


@pytest.mark.parametrize("name", [*ARITHMETIC, *HARD, *LOGIC, *(f"{name}.Tensor" for name in COMPARISONS)])
def test_special_numbers(runner: OperatorRunner, name: str) -> None:
    runner.compare(f"aten.{name}", SPECIAL[:, None].contiguous(), SPECIAL)


@pytest.mark.parametrize("name", [*ARITHMETIC, *LOGIC, *(f"{name}.Tensor" for name in COMPARISONS)])
def test_halves(runner: OperatorRunner, name: str) -> None:
    runner.compare(f"aten.{name}", random(3, 5, dtype=torch.float16), random(5, dtype=torch.float16, seed=1))
    runner.compare(f"aten.{name}", random(3, 8), random(3, 8, dtype=torch.float16, seed=1))


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", [*ARITHMETIC, *HARD, *LOGIC, *BITS, "eq.Tensor", "lt.Tensor"])
def test_whole_numbers(runner: OperatorRunner, name: str, dtype: torch.dtype) -> None:
    a, b = random(7, 5, dtype=dtype), random(5, dtype=dtype, seed=1)
    if name.startswith("pow"):
        b = (b.int().abs() % 4).to(dtype)
    runner.compare(f"aten.{name}", a, torch.where(b == 0, torch.ones_like(b), b))


@pytest.mark.parametrize("name", [*LOGIC, *BITS, "add.Tensor", "mul.Tensor", "maximum.default", "ne.Tensor"])
def test_bools(runner: OperatorRunner, name: str) -> None:
    runner.compare(f"aten.{name}", random(3, 7, dtype=torch.bool), random(7, dtype=torch.bool, seed=1))


def test_kinds_are_promoted(runner: OperatorRunner) -> None:
    """The result's dtype is PyTorch's, from tensors of several dtypes and numbers."""
    for first in (torch.int32, torch.int64, torch.bool, torch.float16):
        runner.compare("aten.add.Tensor", random(9, dtype=first), random(9, seed=1))
        runner.compare("aten.div.Tensor", random(9, dtype=first), torch.full((), 3))
    runner.compare("aten.mul.Tensor", random(9, dtype=torch.int32), random(9, dtype=torch.int64))
    runner.compare("aten.lt.Scalar", random(9, dtype=torch.int64), 0.5)
    runner.compare("aten.mul.Scalar", random(9, dtype=torch.int64), 2.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_rounded_quotients(runner: OperatorRunner, mode: str, dtype: torch.dtype) -> None:
    a, b = random(40, dtype=dtype), random(40, dtype=dtype, seed=1)
    runner.compare("aten.div.Tensor_mode", a, torch.where(b == 0, torch.ones_like(b), b), rounding_mode=mode)
    runner.compare("aten.div.Scalar_mode", a, 3, rounding_mode=mode)


@pytest.mark.parametrize("number", [2, -3, 2.5])
def test_numbers_as_operands(runner: OperatorRunner, number: float) -> None:
    for name in ("add", "sub", "mul", "div", "remainder", "fmod", "rsub", *COMPARISONS):
        runner.compare(f"aten.{name}.Scalar", random(3, 5), number)
    runner.compare("aten.add.Tensor", random(3, 5), random(5, seed=1), alpha=number)
    runner.compare("aten.sub.Tensor", random(3, 5), random(3, 1, seed=1), alpha=number)
    runner.compare("aten.eq.Scalar", random(30, dtype=torch.float16), float(random(1, dtype=torch.float16)))


def test_constants_of_one_element_are_numbers(runner: OperatorRunner) -> None:
    runner.compare("aten.mul.Tensor", random(5), torch.tensor([2.5]), constants=["other"])
    assert [len(set(dispatch.reads)) for dispatch in runner.dispatches] == [1]
    runner.compare("aten.where.self", random(5) > 0, torch.tensor(1.5), random(5), constants=["self"])


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, -2, 0, 1, 1.7, 5])
def test_powers(runner: OperatorRunner, exponent: float) -> None:
    runner.compare("aten.pow.Tensor_Scalar", random(21).abs() + 0.1, exponent)
    if exponent == int(exponent):
        runner.compare("aten.pow.Tensor_Scalar", random(21), exponent)
        runner.compare("aten.pow.Scalar", exponent or 1.5, random(21).clamp(-4, 4).round())
    if exponent == int(exponent) and exponent >= 0:
        runner.compare("aten.pow.Tensor_Scalar", random(21, dtype=torch.int64), int(exponent))


def test_masks_and_limits(runner: OperatorRunner) -> None:
    mask = random(3, 1, dtype=torch.bool)
    runner.compare("aten.masked_fill.Scalar", random(3, 5), mask, -math.inf)
    runner.compare("aten.masked_fill.Tensor", random(3, 5, dtype=torch.int64), mask, torch.tensor(7))
    limits = random(5, seed=1), random(3, 1, seed=2)
    runner.compare("aten.clamp.Tensor", random(3, 5), *limits)
    runner.compare("aten.clamp.Tensor", random(3, 5), limits[0])
    runner.compare("aten.clamp.Tensor", random(3, 5), None, limits[1])
    runner.compare("aten.addcmul.default", random(3, 5), *limits, value=0.5)
    runner.compare("aten.addcdiv.default", random(3, 5), *limits, value=2)
    runner.compare("aten.prelu.default", random(2, 3, 5), random(3, seed=1))
    runner.compare("aten.prelu.default", random(2, 3, 5), torch.tensor([0.3]), constants=["weight"])


def test_many_dimensions_are_refused() -> None:
    check = all_operators()["aten.add.Tensor"].check
    assert check is not None
    found = check({"self": torch.ones([2] * 7), "other": torch.ones(1), "alpha": 1, "out": torch.ones([2] * 7)})
    assert found == "operands of 7 dimensions; at most 6 are supported"


class Operands(torch.nn.Module):
    """Broadcasting where sizes vary, masks, numbers and weights of one element."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.5]))
        self.shift = torch.nn.Parameter(torch.linspace(-1, 1, 3).reshape(3, 1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = (x * self.scale + self.shift) / (y.abs() + 1)
        return z, torch.where(z > y, z, -1.0), z.masked_fill(x < 0, 2) ** 2, (x.shape[0] - z) // 2


def test_exported_operands() -> None:
    rows, width = Dim.DYNAMIC, Dim.DYNAMIC
    inputs = [(random(n, 3, w, seed=n), random(w, seed=w)) for n, w in ((2, 5), (1, 8), (4, 1), (0, 3), (3, 16))]
    compare_exported(Operands(), inputs[0], inputs[1:], dynamic=({0: rows, 2: width}, {0: width}))
