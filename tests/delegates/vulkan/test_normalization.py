"""Softmax and normalizations of the Vulkan delegate, against PyTorch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from tests.delegates.vulkan.test_reductions import PLACES
from tests.delegates.vulkan.test_unary import random
from tests.helpers.vulkan_operators import OperatorRunner, arguments_by_name, assert_close, compare_exported

FLOATS = [torch.float32, torch.float16]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "dim"), PLACES)
def test_softmax(runner: OperatorRunner, shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    for name in ("_softmax", "_log_softmax"):
        runner.compare(f"aten.{name}.default", random(*shape, dtype=dtype), dim, False)


@settings(max_examples=40)
@given(
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 4, 7, 8, 33]), max_size=5).filter(lambda s: math.prod(s) < 20_000),
    data=st.data(),
)
def test_softmax_of_any_shape(runner: OperatorRunner, shape: list[int], data: st.DataObject) -> None:
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    runner.compare("aten._softmax.default", random(*shape), dim, False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "dim"), [((1, 100_003), 1), ((70_001, 3), 0), ((5000, 4), 0)])
def test_softmax_of_many(runner: OperatorRunner, shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    for name in ("_softmax", "_log_softmax"):
        runner.compare(f"aten.{name}.default", random(*shape, dtype=dtype), dim, False)


def test_softmax_of_masks(runner: OperatorRunner) -> None:
    """Rows with minus infinity, and of nothing else, which is NaN everywhere."""
    x = random(4, 7)
    x[1, 2:] = x[3, :] = -math.inf
    x[2, 3] = 1e4
    for dim in (0, 1):
        runner.compare("aten._softmax.default", x, dim, False)
        runner.compare("aten._log_softmax.default", x, dim, False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "over"),
    [
        ((3, 7), (7,)),
        ((2, 5, 16), (16,)),
        ((2, 3, 4), (3, 4)),
        ((4, 1024), (1024,)),
        ((0, 4), (4,)),
        ((5, 2, 6), (2, 6)),
    ],
)
def test_layer_norm(runner: OperatorRunner, shape: tuple[int, ...], over: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight, bias = (
        random(*shape, dtype=dtype),
        random(*over, dtype=dtype, seed=1),
        random(*over, dtype=dtype, seed=2),
    )
    for parameters in ((weight, bias), (weight, None), (None, None)):
        runner.compare("aten.native_layer_norm.default", x, list(over), *parameters, 1e-5)
        runner.compare("aten.layer_norm.default", x, list(over), *parameters, 1e-3)
    runner.compare("aten.rms_norm.default", x, list(over), weight)
    runner.compare("aten.rms_norm.default", x, list(over), None, 1e-3)


def test_layer_norm_far_from_zero(runner: OperatorRunner) -> None:
    """The variance is not the difference of two large numbers."""
    x = random(5, 64) + 1000
    found = runner.call("aten.layer_norm.default", arguments_by_name("aten.layer_norm.default", (x, [64]), {}), [x])
    assert_close(found[0], torch.nn.functional.layer_norm(x.double(), [64]).float())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 6, 5), 3), ((1, 8, 4, 4), 2), ((2, 4, 7, 7), 4), ((2, 4, 3, 4), 1), ((3, 4), 2)]
)
def test_group_norm(runner: OperatorRunner, shape: tuple[int, ...], groups: int, dtype: torch.dtype) -> None:
    channels, each = shape[1], math.prod(shape[2:])
    x, weight, bias = random(*shape, dtype=dtype), random(channels, dtype=dtype), random(channels, dtype=dtype, seed=2)
    runner.compare("aten.native_group_norm.default", x, weight, bias, shape[0], channels, each, groups, 1e-5)
    runner.compare("aten.group_norm.default", x, groups, weight, None, 1e-5)
    runner.compare("aten.group_norm.default", x, groups)


@pytest.mark.parametrize("constants", [(), ("weight", "bias", "running_mean", "running_var")])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 6, 5), (1, 8, 4, 4), (2, 3, 7, 7), (4, 5), (0, 3, 2)])
def test_batch_norm(
    runner: OperatorRunner, shape: tuple[int, ...], dtype: torch.dtype, constants: tuple[str, ...]
) -> None:
    weight, bias, mean, variance = (random(shape[1], dtype=dtype, seed=i) for i in range(4))
    x, variance = random(*shape, dtype=dtype, seed=9), variance.abs() + 0.1
    name = "aten._native_batch_norm_legit_no_training.default"
    runner.compare(name, x, weight, bias, mean, variance, 0.1, 1e-5, constants=constants)
    if x.numel():
        given = (x, None, None, mean, variance, False, 0.1, 1e-5, False)
        runner.compare("aten.batch_norm.default", *given, constants=constants)


class Norms(torch.nn.Module):
    """One of each."""

    def __init__(self) -> None:
        super().__init__()
        self.batch, self.group = torch.nn.BatchNorm2d(4), torch.nn.GroupNorm(2, 4)
        self.layer, self.rms = torch.nn.LayerNorm(6), torch.nn.RMSNorm(6)
        with torch.no_grad():
            for i, parameter in enumerate([*self.parameters(), self.batch.running_mean]):
                parameter.copy_(random(*parameter.shape, seed=i))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.group(self.batch(x))
        return self.layer(y), self.rms(x), torch.softmax(y, 1), torch.log_softmax(y, -1)


def test_exported_norms() -> None:
    inputs = [(random(n, 4, h, 6, seed=n),) for n, h in ((2, 5), (1, 8), (3, 2))]
    compare_exported(Norms(), inputs[0], inputs[1:], dynamic={"x": {0: Dim.DYNAMIC, 2: Dim.DYNAMIC}})
