"""Reductions and running sums of the Vulkan delegate, against PyTorch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from tests.delegates.vulkan.test_unary import random
from tests.helpers.vulkan_operators import OperatorRunner, compare_exported

SPECIAL = torch.tensor(
    [
        [1.0, 2, math.nan, 3],
        [1, math.inf, 2, -math.inf],
        [-math.inf, -math.inf, -math.inf, -math.inf],
        [5, 5, 1, 5],
        [math.nan, math.inf, math.nan, 0],
    ]
)
# Rows of fours and not, short and long, columns of fours and not, outer sizes of one.
PLACES = [
    ((37,), 0),
    ((2, 3, 4), 1),
    ((2, 3, 4), 2),
    ((2, 3, 5), 1),
    ((3, 2, 5), 2),
    ((4, 6, 8), 0),
    ((2, 130), 1),
    ((1, 5000), 1),
    ((5000, 3), 0),
    ((2, 1200, 8), 1),
    ((2, 1, 3), 1),
]
DTYPES = [torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), PLACES)
def test_one_dimension(runner: OperatorRunner, shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = random(*shape, dtype=dtype)
    runner.compare("aten.sum.dim_IntList", x, [dim], True)
    runner.compare("aten.amax.default", x, [dim - len(shape)])
    runner.compare("aten.amin.default", x, [dim], True)
    runner.compare("aten.any.dim", x, dim)
    runner.compare("aten.all.dim", x, dim, True)
    runner.compare("aten.cumsum.default", x if shape[dim] < 5000 or dtype == torch.bool else x.abs(), dim)
    if dtype != torch.bool:
        runner.compare("aten.argmax.default", x, dim)
        runner.compare("aten.argmin.default", x, dim, True)
    if dtype.is_floating_point:
        runner.compare("aten.mean.dim", x, [dim])


@settings(max_examples=50)
@given(
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 4, 7, 8]), max_size=6).filter(lambda shape: math.prod(shape) < 20_000),
    data=st.data(),
)
def test_several_dimensions(runner: OperatorRunner, shape: list[int], data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
    keep = data.draw(st.booleans())
    x = random(*shape)
    runner.compare("aten.sum.dim_IntList", x, dims, keep)
    runner.compare("aten.mean.dim", x, dims, keep)
    if x.numel():
        runner.compare("aten.amax.default", x, dims, keep)


@pytest.mark.parametrize(("shape", "dim"), [((200_001,), 0), ((70_000, 3), 0), ((2, 70_001), 1)])
def test_more_than_loops_may_have_rounds(runner: OperatorRunner, shape: tuple[int, ...], dim: int) -> None:
    x = random(*shape)
    x.select(dim, -1)[...] = 100
    for name in ("argmax", "argmin", "cumsum"):
        runner.compare(f"aten.{name}.default", x if name != "cumsum" else x.abs(), dim)
    runner.compare("aten.sum.dim_IntList", x.abs(), [dim])
    runner.compare("aten.amax.default", x, [dim])
    runner.compare("aten.cumsum.default", random(*shape, dtype=torch.int64), dim)


def test_all_elements(runner: OperatorRunner) -> None:
    for x in (random(3, 4, 5), random(), random(300, 301), random(7, dtype=torch.int64), random(0, 3)):
        runner.compare("aten.sum.default", x)
        runner.compare("aten.any.default", x)
        runner.compare("aten.all.default", x)
        runner.compare("aten.prod.default", x.sign())
        if x.numel():
            runner.compare("aten.argmax.default", x)
            runner.compare("aten.max.default", x)
    runner.compare("aten.mean.default", random(5, 7))


def test_of_nothing(runner: OperatorRunner) -> None:
    for dim in (0, 1):
        for name in ("any", "all"):
            runner.compare(f"aten.{name}.dim", random(3, 0), dim)
        runner.compare("aten.sum.dim_IntList", random(3, 0), [dim])
        runner.compare("aten.prod.dim_int", random(3, 0), dim)
        runner.compare("aten.mean.dim", random(3, 0), [dim])
        runner.compare("aten.cumsum.default", random(3, 0), dim)


def test_products(runner: OperatorRunner) -> None:
    for shape, dim in (((3, 7), 1), ((6, 8), 0), ((5, 3), 0)):
        runner.compare("aten.prod.dim_int", random(*shape), dim)
        runner.compare("aten.prod.dim_int", random(*shape, dtype=torch.int64).clamp(-2, 2), dim, True)


@pytest.mark.parametrize("correction", [0, 1, 2, 9])
@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], None])
def test_variances(runner: OperatorRunner, dims: list[int] | None, correction: int) -> None:
    x = random(3, 4, 5) + 100
    runner.compare("aten.var.correction", x, dims, correction=min(correction, 3) if dims != [0] else correction % 3)
    runner.compare("aten.var.correction", x.half(), dims, correction=1, keepdim=True)


@pytest.mark.parametrize("dim", [0, 1])
def test_special_numbers(runner: OperatorRunner, dim: int) -> None:
    for name in ("amax.default", "amin.default", "sum.dim_IntList"):
        runner.compare(f"aten.{name}", SPECIAL, [dim])
    for name in ("argmax.default", "argmin.default", "cumsum.default", "max.dim", "min.dim", "any.dim", "all.dim"):
        runner.compare(f"aten.{name}", SPECIAL, dim)


def test_a_sum_of_many_small_numbers(runner: OperatorRunner) -> None:
    """Not one after another in float32, which would stop at 2**24."""
    count = 3_000_000
    (found,) = runner.call("aten.sum.default", {"self": torch.full((count,), 0.1)}, [torch.empty(())])
    assert found.item() == pytest.approx(count * 0.1, rel=1e-5)
    (last,) = runner.call(
        "aten.cumsum.default", {"self": torch.full((100_000,), 0.1), "dim": 0}, [torch.empty(100_000)]
    )
    assert last[-1].item() == pytest.approx(1e4, rel=1e-6)


class Reductions(torch.nn.Module):
    """Over dimensions that vary and that do not."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.sum((0, 2)),
            x.mean(-1, keepdim=True) + x,
            x.amax(1),
            x.argmax(2),
            (x > 0).any(0),
            x.var(2),
            x.cumsum(0),
        )


def test_exported_reductions() -> None:
    inputs = [(random(n, 3, w, seed=n),) for n, w in ((2, 5), (1, 8), (9, 4), (3, 700))]
    compare_exported(Reductions(), inputs[0], inputs[1:], dynamic={"x": {0: Dim.DYNAMIC, 2: Dim.DYNAMIC}})
