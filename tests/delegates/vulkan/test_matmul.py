"""Matrix products on Vulkan against PyTorch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.vulkan_operators import OperatorRunner

SIZES = [(1, 5, 3), (2, 64, 33), (3, 33, 7), (4, 8, 4), (8, 64, 32), (17, 31, 70), (40, 128, 100), (16, 36, 36)]


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 1e-2 if expected.dtype == torch.float16 else 1e-4
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max() + 1e-6))


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_mm(runner: OperatorRunner, dtype: torch.dtype, m: int, k: int, n: int) -> None:
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
    expected = a @ b
    close(runner.call("aten.mm.default", {"self": a, "mat2": b}, [expected])[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_bmm_through_shared_memory(plain_runner: OperatorRunner, dtype: torch.dtype, m: int, k: int, n: int) -> None:
    a, b = random(3, m, k, dtype=dtype), random(3, k, n, dtype=dtype)
    expected = a @ b
    close(plain_runner.call("aten.bmm.default", {"self": a, "mat2": b}, [expected])[0], expected)


@pytest.mark.parametrize("shape", [(7,), (5, 7), (5, 1), (1, 7), (1, 1)], ids=str)
def test_addmm_broadcasts_its_bias(runner: OperatorRunner, shape: tuple[int, ...]) -> None:
    bias, a, b = random(*shape), random(5, 9), random(9, 7)
    expected = torch.addmm(bias, a, b, beta=0.5, alpha=-2)
    arguments = {"self": bias, "mat1": a, "mat2": b, "beta": 0.5, "alpha": -2}
    close(runner.call("aten.addmm.default", arguments, [expected])[0], expected)


def test_addmm_without_its_bias_lets_no_nan_through(runner: OperatorRunner) -> None:
    bias, a, b = torch.full((7,), float("nan")), random(5, 9), random(9, 7)
    expected = torch.addmm(bias, a, b, beta=0)
    arguments = {"self": bias, "mat1": a, "mat2": b, "beta": 0, "alpha": 1}
    close(runner.call("aten.addmm.default", arguments, [expected])[0], expected)


@pytest.mark.parametrize("shape", [(4, 5, 7), (1, 5, 7), (4, 1, 7), (7,), (5, 1)], ids=str)
def test_baddbmm_broadcasts_its_bias(runner: OperatorRunner, shape: tuple[int, ...]) -> None:
    bias, a, b = random(*shape), random(4, 5, 8), random(4, 8, 7)
    expected = torch.baddbmm(bias, a, b, beta=2, alpha=0.5)
    arguments = {"self": bias, "batch1": a, "batch2": b, "beta": 2, "alpha": 0.5}
    close(runner.call("aten.baddbmm.default", arguments, [expected])[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("constants", [("weight", "bias"), ()], ids=["known weights", "computed weights"])
@pytest.mark.parametrize("shape", [(9,), (1, 9), (2, 3, 12), (2, 3, 4, 40)], ids=str)
def test_linear(runner: OperatorRunner, dtype: torch.dtype, constants: tuple[str, ...], shape: tuple[int, ...]) -> None:
    x, weight, bias = random(*shape, dtype=dtype), random(35, shape[-1], dtype=dtype), random(35, dtype=dtype)
    expected = torch.nn.functional.linear(x, weight, bias)
    arguments = {"input": x, "weight": weight, "bias": bias}
    close(runner.call("aten.linear.default", arguments, [expected], constants)[0], expected)


ACTIVATIONS = {
    "relu": torch.relu,
    "hardswish": torch.nn.functional.hardswish,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "clamp": lambda x: x.clamp(-1, 2.5),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_linear_with_an_activation(runner: OperatorRunner, name: str) -> None:
    x, weight = 3 * random(6, 8), random(10, 8)
    expected = ACTIVATIONS[name](torch.nn.functional.linear(x, weight))
    arguments = {"input": x, "weight": weight, "bias": None, "activation": name, "lowest": -1.0, "highest": 2.5}
    close(runner.call("aten.linear.default", arguments, [expected], ["weight"])[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 40, 33), (5, 12, 8), (20, 19, 70)])
def test_linear_with_weights_of_8_bits(runner: OperatorRunner, dtype: torch.dtype, m: int, k: int, n: int) -> None:
    x, weight = random(m, k, dtype=dtype), torch.randint(-128, 128, (n, k), dtype=torch.int8)
    scales = (torch.rand(n) / 100).to(dtype)
    expected = (x.float() @ (weight * scales.float()[:, None]).T).to(dtype)
    arguments = {"self": x, "mat2": weight, "scales": scales}
    close(runner.call("aten._weight_int8pack_mm.default", arguments, [expected], ["mat2", "scales"])[0], expected)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 4, 4), (4, 4, 0), (3, 0, 5)])
def test_nothing_to_multiply(runner: OperatorRunner, m: int, k: int, n: int) -> None:
    expected = random(m, k) @ random(k, n)
    found = runner.call("aten.mm.default", {"self": random(m, k), "mat2": random(k, n)}, [expected])[0]
    assert torch.equal(found, expected)


def test_infinities_stay_in_their_columns(runner: OperatorRunner) -> None:
    a, b = torch.ones(3, 6), torch.ones(6, 5)
    b[5, 2] = float("inf")
    expected = a @ b
    assert torch.equal(runner.call("aten.mm.default", {"self": a, "mat2": b}, [expected])[0], expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 70), st.integers(1, 80))
def test_any_sizes(runner: OperatorRunner, batch: int, m: int, k: int, n: int) -> None:
    a, b = random(batch, m, k), random(batch, k, n)
    expected = a @ b
    close(runner.call("aten.bmm.default", {"self": a, "mat2": b}, [expected])[0], expected)
