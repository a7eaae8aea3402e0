"""Convolutions on Vulkan against PyTorch."""

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from etarena.delegates.vulkan.operators.convolution import taps_of_phase
from tests.helpers.vulkan_operators import OperatorRunner

KNOWN = ("weight", "bias")


def convolve(
    runner: OperatorRunner,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    known: tuple[str, ...] = KNOWN,
    **settings: Any,
) -> None:
    """Run a convolution and compare it with PyTorch."""
    rank = x.dim() - 2
    arguments = {
        "input": x,
        "weight": weight,
        "bias": bias,
        "stride": [1] * rank,
        "padding": [0] * rank,
        "dilation": [1] * rank,
        "transposed": False,
        "output_padding": [0] * rank,
        "groups": 1,
        **settings,
    }
    expected = torch.ops.aten.convolution.default(**arguments)
    found = runner.call("aten.convolution.default", arguments, [expected], known)[0]
    tolerance = 1e-2 if x.dtype == torch.float16 else 1e-4
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * largest)


DIRECT = [
    pytest.param((1, 3, 9, 9), (8, 3, 3, 3), {"padding": [1, 1]}, id="3x3"),
    pytest.param((2, 5, 10, 7), (12, 5, 3, 2), {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2]}, id="uneven"),
    pytest.param((1, 8, 6, 6), (16, 4, 3, 3), {"padding": [1, 1], "groups": 2}, id="groups"),
    pytest.param((1, 8, 12, 12), (20, 2, 5, 5), {"stride": [2, 2], "padding": [2, 2], "groups": 4}, id="groups of 2"),
    pytest.param((2, 7, 8, 8), (40, 7, 1, 1), {"stride": [2, 2]}, id="1x1 stride 2"),
    pytest.param((1, 4, 9, 9), (70, 4, 7, 7), {"stride": [2, 2], "padding": [3, 3]}, id="7x7"),
    pytest.param((1, 2, 3, 3), (3, 2, 3, 3), {"padding": [4, 5]}, id="more padding than kernel"),
    pytest.param((1, 6, 20), (9, 6, 5), {"stride": [2], "padding": [2]}, id="1d"),
    pytest.param((2, 6, 20), (8, 3, 5), {"dilation": [3], "groups": 2}, id="1d dilated groups"),
]
POINTWISE = [
    pytest.param((1, 32, 7, 7), (24, 32, 1, 1), {}, id="49 pixels"),
    pytest.param((3, 9, 4, 8), (33, 9, 1, 1), {}, id="9 channels"),
    pytest.param((1, 1, 1, 1), (1, 1, 1, 1), {}, id="one number"),
    pytest.param((2, 12, 10), (5, 12, 1), {}, id="1d"),
]
DEPTHWISE = [
    pytest.param((1, 6, 9, 9), (6, 1, 3, 3), {"padding": [1, 1], "groups": 6}, id="3x3"),
    pytest.param(
        (2, 6, 8, 12), (12, 1, 3, 3), {"stride": [2, 2], "padding": [1, 1], "groups": 6}, id="two outputs each"
    ),
    pytest.param((1, 4, 11, 10), (4, 1, 5, 5), {"padding": [2, 2], "dilation": [2, 2], "groups": 4}, id="dilated"),
    pytest.param((1, 4, 7, 7), (4, 1, 3, 5), {"stride": [1, 2], "padding": [1, 2], "groups": 4}, id="uneven"),
    pytest.param((1, 2, 3, 3), (2, 1, 3, 3), {"padding": [3, 3], "groups": 2}, id="much padding"),
    pytest.param((1, 3, 14, 14), (3, 1, 9, 9), {"padding": [4, 4], "groups": 3}, id="too large to unroll"),
    pytest.param((2, 5, 30), (5, 1, 3), {"padding": [1], "groups": 5}, id="1d"),
]
TRANSPOSED = [
    pytest.param((1, 3, 5, 6), (3, 8, 3, 3), {"padding": [1, 1]}, id="stride 1"),
    pytest.param((2, 5, 4, 4), (5, 6, 4, 4), {"stride": [2, 2], "padding": [1, 1]}, id="doubling"),
    pytest.param((1, 4, 5, 3), (4, 5, 3, 3), {"stride": [2, 3], "output_padding": [1, 2]}, id="output padding"),
    pytest.param((1, 6, 4, 5), (6, 4, 3, 2), {"stride": [3, 2], "padding": [1, 0], "groups": 2}, id="groups"),
    pytest.param(
        (1, 3, 4, 4), (3, 2, 3, 3), {"stride": [2, 2], "dilation": [2, 3], "output_padding": [1, 1]}, id="dilated"
    ),
    pytest.param((1, 2, 3, 3), (2, 3, 1, 1), {"stride": [2, 2]}, id="gaps of bias alone"),
    pytest.param((1, 3, 7), (3, 4, 4), {"stride": [2], "padding": [1]}, id="1d"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("shape", "weights", "options"), [*DIRECT, *POINTWISE, *DEPTHWISE])
def test_convolution(
    runner: OperatorRunner,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    options: dict[str, Any],
) -> None:
    x, weight, bias = (torch.randn(size).to(dtype) for size in (shape, weights, weights[:1]))
    convolve(runner, x, weight, bias, **options)
    convolve(runner, x, weight, None, **options)


@pytest.mark.parametrize(("shape", "weights", "options"), [*DIRECT, *DEPTHWISE])
def test_convolution_through_shared_memory(
    plain_runner: OperatorRunner, shape: tuple[int, ...], weights: tuple[int, ...], options: dict[str, Any]
) -> None:
    convolve(plain_runner, torch.randn(shape), torch.randn(weights), torch.randn(weights[0]), **options)


@pytest.mark.parametrize(("shape", "weights", "options"), [*DIRECT, *POINTWISE, *DEPTHWISE])
def test_convolution_by_computed_weights(
    runner: OperatorRunner, shape: tuple[int, ...], weights: tuple[int, ...], options: dict[str, Any]
) -> None:
    convolve(runner, torch.randn(shape), torch.randn(weights), torch.randn(weights[0]), known=(), **options)


@pytest.mark.parametrize("known", [KNOWN, ()], ids=["known weights", "computed weights"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("shape", "weights", "options"), TRANSPOSED)
def test_transposed(
    runner: OperatorRunner,
    dtype: torch.dtype,
    known: tuple[str, ...],
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    options: dict[str, Any],
) -> None:
    x, weight = torch.randn(shape).to(dtype), torch.randn(weights).to(dtype)
    bias = torch.randn(weights[1] * options.get("groups", 1)).to(dtype)
    convolve(runner, x, weight, bias, known, transposed=True, **options)


@pytest.mark.parametrize("options", [{}, {"groups": 8}, {"padding": [1, 1]}], ids=["product", "depthwise", "direct"])
def test_activation(runner: OperatorRunner, options: dict[str, Any]) -> None:
    x, weight = torch.randn(1, 8, 6, 6), torch.randn(8, 8 // options.get("groups", 1), 1, 1)
    padding = options.get("padding", [0, 0])
    expected = torch.nn.functional.relu6(torch.conv2d(x, weight, None, 1, padding, 1, options.get("groups", 1)))
    arguments = {
        "input": x,
        "weight": weight,
        "bias": None,
        "stride": [1, 1],
        "padding": padding,
        "dilation": [1, 1],
        "transposed": False,
        "output_padding": [0, 0],
        "groups": options.get("groups", 1),
        "activation": "clamp",
        "lowest": 0.0,
        "highest": 6.0,
    }
    found = runner.call("aten.convolution.default", arguments, [expected], ["weight"])[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_no_images(runner: OperatorRunner) -> None:
    convolve(runner, torch.randn(0, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4))


def test_what_lies_outside_counts_as_zero_beside_infinity(runner: OperatorRunner) -> None:
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 0, 0] = float("inf")
    weight = torch.ones(1, 1, 3, 3)
    for groups in (1,):
        expected = torch.conv2d(x, weight, padding=1)
        arguments = {
            "input": x,
            "weight": weight,
            "bias": None,
            "stride": [1, 1],
            "padding": [1, 1],
            "dilation": [1, 1],
            "transposed": False,
            "output_padding": [0, 0],
            "groups": groups,
        }
        for known in (["weight"], []):  # depthwise and direct
            found = runner.call("aten.convolution.default", arguments, [expected], known)[0]
            assert torch.equal(found, expected)


@given(st.integers(0, 5), st.integers(1, 7), st.integers(1, 6), st.integers(0, 5), st.integers(1, 4), st.integers(1, 9))
def test_taps_of_a_phase_meet_their_outputs(
    phase: int, kernel: int, stride: int, padding: int, dilation: int, inputs: int
) -> None:
    """Against the definition: input i and tap t meet at output i * stride - padding + t * dilation."""
    assume(phase < stride)
    taps = taps_of_phase(phase, kernel, stride, padding, dilation)
    outputs = range(phase, inputs * stride, stride)
    found = {
        (taps.place + row + n * taps.place_step, taps.first + n * taps.step, output)
        for row, output in enumerate(outputs)
        for n in range(taps.count)
    }
    met = {
        (i, t, i * stride - padding + t * dilation)
        for i in range(-40, 40)
        for t in range(kernel)
        if i * stride - padding + t * dilation in outputs
    }
    assert found == met


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 20),
    st.integers(1, 3),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 2),
    st.booleans(),
)
def test_any_sizes(
    runner: OperatorRunner,
    batch: int,
    inner: int,
    outer: int,
    groups: int,
    size: tuple[int, int],
    kernel: int,
    stride: int,
    padding: int,
    transposed: bool,
) -> None:
    reach = (kernel - 1) + 1
    assume(transposed or min(size) + 2 * padding >= reach)
    assume(not transposed or (min(size) - 1) * stride - 2 * padding + kernel > 0)
    x = torch.randn(batch, inner * groups, *size)
    channels = (inner * groups, outer) if transposed else (outer * groups, inner)
    options = {"stride": [stride] * 2, "padding": [padding] * 2, "groups": groups, "transposed": transposed}
    convolve(runner, x, torch.randn(*channels, kernel, kernel), torch.randn(outer * groups), **options)
