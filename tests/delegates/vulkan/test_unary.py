"""Functions of single elements, conversions and filled tensors of the Vulkan delegate, against PyTorch."""

import math

import pytest
import torch
from torch.export import Dim

from etarena.delegates.vulkan.operators.registry import all_operators
from tests.helpers.vulkan_operators import DTYPES, OperatorRunner, compare_exported

INFINITY, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, INFINITY, -INFINITY, NAN, 1e-4, -1e-4, 2.5, 3.5, -2.5, 88, -88, 100, -100]
FUNCTIONS = [
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
    "exp2",
    "isnan",
    "isinf",
    "logical_not",
    "silu",
    "hardswish",
    "hardsigmoid",
    "square",
    "mish",
    "relu6",
    "hardtanh",
    "leaky_relu",
    "elu",
    "softplus",
]


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=generator) * 3).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(runner: OperatorRunner, function: str) -> None:
    """Random numbers, borders of domains and what is no number, in a size that four do not divide and one they do."""
    name = f"aten.{function}.default"
    numbers = torch.cat([random(27), torch.linspace(-1, 1, 32), torch.tensor(SPECIAL)])
    assert len(numbers) % 4 == 1
    runner.compare(name, numbers)
    runner.compare(name, numbers[:60].half().reshape(3, 4, 5))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(runner: OperatorRunner, approximate: str) -> None:
    numbers = torch.tensor([*SPECIAL[:6], *SPECIAL[7:], -1e4, 1e4, *torch.linspace(-6, 6, 101).tolist()])
    runner.compare("aten.gelu.default", numbers, approximate=approximate)
    runner.compare("aten.gelu.default", random(40, dtype=torch.float16), approximate=approximate)
    (found,) = runner.call(
        "aten.gelu.default", {"self": torch.tensor([INFINITY]), "approximate": approximate}, [torch.ones(1)]
    )
    assert found.item() == INFINITY  # PyTorch says so for one number, and NaN for eight at a time


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("leaky_relu", (0.2,)),
        ("elu", (0.7, 1.5, 2.0)),
        ("softplus", (2.0, 3.0)),
        ("hardtanh", (-2.5, 0.5)),
        ("clamp", (-1, 2)),
        ("clamp", (None, 0.5)),
        ("clamp", (0.5, None)),
        ("clamp", (2, 1)),
        ("clamp_min", (0.25,)),
        ("clamp_max", (0.25,)),
    ],
)
def test_functions_with_numbers(runner: OperatorRunner, name: str, numbers: tuple[float, ...]) -> None:
    runner.compare(f"aten.{name}.default", torch.cat([random(30), torch.tensor([NAN, INFINITY, -INFINITY])]), *numbers)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8, torch.uint8])
def test_functions_of_whole_numbers(runner: OperatorRunner, dtype: torch.dtype) -> None:
    x = random(13, dtype=dtype)
    for function in ("neg", "abs", "relu", "sign", "square", "bitwise_not", "logical_not", "exp", "floor"):
        runner.compare(f"aten.{function}.default", x)
    runner.compare("aten.clamp.default", x, 1, 5)
    runner.compare("aten.clamp.default", x, None, 5)
    if dtype in (torch.int32, torch.int64):
        runner.compare("aten.clamp.default", x, -1.5, 2.5)
    if dtype == torch.int64:
        runner.compare("aten.clamp.default", x, -(1 << 40), 1 << 40)


def test_functions_of_bools(runner: OperatorRunner) -> None:
    for function in ("bitwise_not", "logical_not", "exp"):
        runner.compare(f"aten.{function}.default", random(7, dtype=torch.bool))


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("to", DTYPES)
def test_conversions(runner: OperatorRunner, source: torch.dtype, to: torch.dtype) -> None:
    """Of sizes that end inside a word or between two."""
    for count in (0, 1, 2, 3, 4, 13):
        x = random(count, dtype=source)
        runner.compare("aten._to_copy.default", x.abs() if to == torch.uint8 and source != torch.bool else x, dtype=to)


def test_halves_are_the_nearest(runner: OperatorRunner) -> None:
    """Bit for bit: ties, the largest half, subnormal halves, and what is none."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(1 << 31), 1 << 31, (20_000,), generator=generator).to(torch.int32)
    around = (
        torch.arange(0, 0x7C01, 7).to(torch.int16).view(torch.float16).float().view(torch.int32)[:, None]
        + torch.tensor([-1, 0, 1, 0x1000, 0x0FFF, 0x1001])
    ).to(torch.int32)
    x = torch.cat([bits, around.reshape(-1)]).view(torch.float32)
    (found,) = runner.call("aten._to_copy.default", {"self": x}, [x.half()])
    expected = x.half()
    numbers = ~expected.isnan()
    assert torch.equal(found[numbers].view(torch.int16), expected[numbers].view(torch.int16))
    assert found[~numbers].isnan().all()
    halves = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.float16)
    (wide,) = runner.call("aten._to_copy.default", {"self": halves}, [halves.float()])
    assert torch.equal(wide[~halves.isnan()], halves.float()[~halves.isnan()])


@pytest.mark.parametrize("dtype", DTYPES)
def test_filled_tensors(runner: OperatorRunner, dtype: torch.dtype) -> None:
    for count in (0, 1, 3, 8):
        runner.compare("aten.full.default", [count, 2], 3, dtype=dtype)
        runner.compare("aten.full_like.default", random(count, dtype=dtype), 1)
        runner.compare("aten.zeros.default", [count], dtype=dtype)
        runner.compare("aten.ones.default", [count], dtype=dtype)
    runner.compare("aten.scalar_tensor.default", 1, dtype=dtype)


def test_numbers_that_are_not_finite(runner: OperatorRunner) -> None:
    for number in (INFINITY, -INFINITY, NAN, -0.0):
        runner.compare("aten.full.default", [5], number)
        runner.compare("aten.full.default", [5], number, dtype=torch.float16)


def test_ranges(runner: OperatorRunner) -> None:
    runner.compare("aten.arange.start_step", 1, 50, 3, dtype=torch.int64)
    runner.compare("aten.arange.start_step", 9, -9, -2, dtype=torch.int32)
    runner.compare("aten.arange.start_step", 1, 20, 0.37, dtype=torch.float32)
    runner.compare("aten.arange.start", -3, 4)
    runner.compare("aten.arange.default", 0)


def test_more_elements_than_a_row_of_workgroups(runner: OperatorRunner) -> None:
    (found,) = runner.call("aten.neg.default", {"self": random(1_000_003)}, [torch.empty(1_000_003)])
    assert torch.equal(found, -random(1_000_003))


def test_numbers_of_64_bits_are_refused() -> None:
    """Shaders know the lower half of an int64."""
    check = all_operators()["aten.full.default"].check
    assert check is not None
    assert "32 bits" in (check({"fill_value": 1 << 40, "out": torch.empty(1)}) or "")
    assert check({"size": [1 << 40], "fill_value": 1 << 30, "out": torch.empty(1)}) is None


class Functions(torch.nn.Module):
    """A chain of functions, conversions and tensors that are made."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.gelu(x.exp().clamp(max=5) - 2.5)
        y = torch.nn.functional.hardswish(torch.nn.functional.leaky_relu(y) * 2)
        return y, y.half().tanh(), (y > 0).to(torch.int64), torch.full_like(y, 2) + torch.arange(x.shape[1])


def test_exported_functions() -> None:
    inputs = [(random(n, 5, seed=n),) for n in (3, 1, 0, 17, 4)]
    compare_exported(Functions(), inputs[0], inputs[1:], dynamic={"x": {0: Dim.DYNAMIC}})
