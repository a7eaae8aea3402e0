"""Pooling on Vulkan against PyTorch."""

from typing import Any

import pytest
import torch

from tests.helpers.vulkan_operators import OperatorRunner

WINDOWS = [
    {"kernel_size": [2, 2]},
    {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]},
    {"kernel_size": [3, 2], "stride": [2, 1], "padding": [1, 0], "ceil_mode": True},
    {"kernel_size": [3], "stride": [2], "padding": [1], "ceil_mode": True},
    {"kernel_size": [3], "stride": [2], "ceil_mode": True},
]
DILATED = [{"kernel_size": [3, 2], "padding": [1, 1], "dilation": [2, 3]}, {"kernel_size": [3, 2], "dilation": [2, 3]}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("options", [*WINDOWS, *DILATED], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 9, 10), (3, 8, 7)], ids=str)
def test_max_pool2d(
    runner: OperatorRunner, dtype: torch.dtype, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape).to(dtype)
    arguments = {"stride": [], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False, **options}
    expected = torch.ops.aten.max_pool2d_with_indices.default(x, **arguments)
    found = runner.call("aten.max_pool2d_with_indices.default", {"self": x, **arguments}, expected)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_max_pool2d_of_nan_and_infinity(runner: OperatorRunner) -> None:
    x = torch.full((1, 1, 4, 4), float("-inf"))
    x[0, 0, 3, 3] = float("nan")
    arguments = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False}
    expected = torch.ops.aten.max_pool2d_with_indices.default(x, **arguments)
    found = runner.call("aten.max_pool2d_with_indices.default", {"self": x, **arguments}, expected)
    torch.testing.assert_close(found[0], expected[0], equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("options", WINDOWS, ids=str)
@pytest.mark.parametrize("counts", [{}, {"count_include_pad": False}, {"divisor_override": 5}], ids=str)
def test_avg_pool2d(
    runner: OperatorRunner, dtype: torch.dtype, options: dict[str, Any], counts: dict[str, Any]
) -> None:
    x = torch.randn(2, 3, 9, 10).to(dtype)
    arguments = {
        "stride": [],
        "padding": [0, 0],
        "ceil_mode": False,
        "count_include_pad": True,
        "divisor_override": None,
        **options,
        **counts,
    }
    expected = torch.ops.aten.avg_pool2d.default(x, **arguments)
    found = runner.call("aten.avg_pool2d.default", {"self": x, **arguments}, [expected])[0]
    tolerance = 1e-2 if dtype == torch.float16 else 1e-5
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (9, 10), (13, 12)], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 9, 10), (4, 7, 5)], ids=str)
def test_adaptive(runner: OperatorRunner, size: tuple[int, int], shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    expected = torch.ops.aten._adaptive_avg_pool2d.default(x, size)
    found = runner.call("aten._adaptive_avg_pool2d.default", {"self": x, "output_size": list(size)}, [expected])[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    largest = torch.ops.aten.adaptive_max_pool2d.default(x, size)
    both = runner.call("aten.adaptive_max_pool2d.default", {"self": x, "output_size": list(size)}, largest)
    assert torch.equal(both[0], largest[0])
    assert torch.equal(both[1], largest[1])


def test_no_planes(runner: OperatorRunner) -> None:
    x = torch.randn(0, 3, 8, 8)
    arguments = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False}
    expected = torch.ops.aten.max_pool2d_with_indices.default(x, **arguments)
    assert runner.call("aten.max_pool2d_with_indices.default", {"self": x, **arguments}, expected)[0].shape == (
        0,
        3,
        4,
        4,
    )
