"""Shapes at which one invocation would go more rounds than Mesa's device for CPUs lets it: cut into pieces, or refused.

The device ends the loops of an invocation after 65535 rounds in all and says nothing; results are then merely wrong.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import etarena
from etarena import vulkan
from etarena.allocator.errors import Error
from etarena.delegates.vulkan.operators.call import BoundTensor, Call, Dispatch
from etarena.delegates.vulkan.operators.registry import all_operators
from tests.helpers.vulkan_operators import OperatorRunner

ENDED_AFTER = 65535


class Emitted:
    """What an operator emits for tensors that are nowhere, however large."""

    def __init__(self, device: vulkan.Device) -> None:
        self.limits = device.info.limits
        self.dispatches: list[Dispatch] = []
        self._count = 0

    def emit(self, dispatch: Dispatch) -> None:
        """Keep it."""
        self.dispatches.append(dispatch)

    def temporary(self, dtype: str, shape: tuple[int, ...]) -> BoundTensor:
        """Make a tensor without memory."""
        self._count += 1
        return BoundTensor(self._count, dtype, shape)

    def is_constant(self, tensor: BoundTensor) -> bool:
        """None is."""
        return False

    def run(self, name: str, out: Sequence[int], arguments: dict[str, Any]) -> list[Dispatch]:
        """The dispatches of a call; shapes stand for tensors."""
        bound = {
            key: self.temporary("float32", value) if isinstance(value, tuple) else value
            for key, value in arguments.items()
        }
        all_operators()[name].emit(Call(name, bound, [self.temporary("float32", tuple(out))], self))
        return self.dispatches


@pytest.mark.parametrize(("m", "k"), [(5, 70_000), (9, 262_200), (2, 1_060_001)])
def test_a_long_product(runner: OperatorRunner, m: int, k: int) -> None:
    bias, a, b = torch.randn(1), torch.randn(m, k), torch.randn(k, 1)
    arguments = {"self": bias, "mat1": a, "mat2": b, "beta": 50.0, "alpha": -2.0, "activation": "relu"}
    exact = torch.relu(torch.addmm(bias.double(), a.double(), b.double(), beta=50.0, alpha=-2.0))
    (found,) = runner.call("aten.addmm.default", arguments, [exact.float()])
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4 * 2 * k**0.5)


def test_a_long_linear_layer_with_computed_weights(runner: OperatorRunner) -> None:
    x, weight, bias = torch.randn(5, 262_201), torch.randn(2, 262_201), torch.randn(2)
    exact = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    arguments = {"input": x, "weight": weight, "bias": bias}
    (found,) = runner.call("aten.linear.default", arguments, [exact.float()])
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4 * 262_201**0.5)


def test_the_mean_of_large_planes(runner: OperatorRunner) -> None:
    x = torch.randn(2, 300, 400) + 1
    arguments = {"self": x, "output_size": [1, 1]}
    (found,) = runner.call("aten._adaptive_avg_pool2d.default", arguments, [x.mean((1, 2), keepdim=True)])
    torch.testing.assert_close(found, x.mean((1, 2), keepdim=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [4096, 8_000_000, 30_000_000])
def test_workgroups_grow_with_rows(device: vulkan.Device, size: int) -> None:
    arguments = {"input": (1, size), "normalized_shape": [size], "weight": None, "bias": None, "eps": 1e-5}
    (dispatch,) = Emitted(device).run("aten.layer_norm.default", (1, size), arguments)
    lanes = dict(dispatch.constants)[100]
    assert 3 * size / (4 * lanes) < ENDED_AFTER
    assert lanes <= device.info.limits["maxComputeWorkGroupInvocations"]


REFUSED = {
    "aten.layer_norm.default": ((1, 1 << 30), {"input": (1, 1 << 30), "normalized_shape": [1 << 30], "eps": 1e-5}),
    "aten.argmax.default": ((), {"self": (1 << 30,), "dim": None}),
    "aten.scaled_dot_product_attention.default": (
        (1, 1, 9, 4),
        {
            "query": (1, 1, 9, 4),
            "key": (1, 1, 600_000, 4),
            "value": (1, 1, 600_000, 4),
            "attn_mask": None,
            "is_causal": False,
            "scale": None,
        },
    ),
    "aten.avg_pool2d.default": (
        (1, 1, 1, 2),
        {
            "self": (1, 1, 300, 301),
            "kernel_size": [300, 300],
            "stride": [1, 1],
            "padding": [0, 0],
            "count_include_pad": True,
            "divisor_override": None,
        },
    ),
    "aten.convolution.default": (
        (1, 2, 1, 1),
        {
            "input": (1, 40_000, 3, 3),
            "weight": (2, 40_000, 3, 3),
            "bias": None,
            "stride": [1, 1],
            "padding": [0, 0],
            "dilation": [1, 1],
            "transposed": False,
            "groups": 1,
        },
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_refused(device: vulkan.Device, name: str) -> None:
    out, arguments = REFUSED[name]
    with pytest.raises(Error, match=rf"{name} of Vulkan is given the shape .* rounds.*skip=\['{name}'\]"):
        Emitted(device).run(name, out, arguments)


def test_a_convolution_known_to_be_too_long_goes_elsewhere() -> None:
    model = torch.nn.Conv2d(40_000, 1, 3, bias=False).eval()
    partitioner = etarena.VulkanPartitioner()
    exported = etarena.export(model, (torch.randn(1, 40_000, 3, 3),), partitioners=[partitioner])
    assert not exported.plan().delegates
    assert any("its loops have 90012 rounds" in reason for reason in partitioner.reasons["forward"].values())
