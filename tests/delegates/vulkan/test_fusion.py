"""Operators that become one at export: what is folded, what must not be, and that results stay PyTorch's."""

import pytest
import torch
from executorch.exir import to_edge
from torch import nn

import etarena
from etarena import vulkan
from etarena.delegates.vulkan.fusion import fuse
from etarena.delegates.vulkan.graph import Graph
from etarena.delegates.vulkan.preprocess import lower_graph


class Block(nn.Module):
    """A convolution with a norm that has seen data, and an activation."""

    def __init__(self, activation: nn.Module, *, bias: bool = False, affine: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(4, 8, 3, padding=1, bias=bias, groups=2)
        self.norm = nn.BatchNorm2d(8, affine=affine)
        self.activation = activation
        for _ in range(3):
            self.norm(self.convolution(torch.randn(2, 4, 6, 6) * 3 + 1))
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All three."""
        return self.activation(self.norm(self.convolution(x)))


class Shared(nn.Module):
    """The convolution's result is used before the activation too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both."""
        y = self.convolution(x)
        return torch.relu(y) - y


def names(module: nn.Module, *given: torch.Tensor) -> list[str]:
    """The operations of a module as one delegate, fused, with the activations that they apply."""
    graph = lower_graph(to_edge(torch.export.export(module, given)).exported_program())
    Graph.decode(graph.encode())
    found = []
    for operation in graph.operations:
        applied = operation.arguments.get("activation")
        found.append(operation.name.split(".")[1] + (f"+{applied}" if applied else ""))
    return found


IMAGE = torch.randn(2, 4, 5, 7)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (nn.ReLU(), ["convolution+relu"]),
        (nn.ReLU6(), ["convolution+clamp"]),
        (nn.Hardtanh(-0.5, 0.25), ["convolution+clamp"]),
        (nn.Tanh(), ["convolution", "tanh"]),
    ],
)
def test_norm_and_activation_go_into_the_convolution(activation: nn.Module, expected: list[str]) -> None:
    assert names(Block(activation), IMAGE) == expected


def test_a_result_that_is_used_twice_keeps_its_activation_apart() -> None:
    assert names(Shared(), IMAGE) == ["convolution", "relu", "sub"]


def test_products_take_activations_once() -> None:
    layers = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.ReLU6(), nn.Linear(5, 3)).eval()
    found = names(layers, torch.randn(2, 4))
    assert [name for name in found if "permute" not in name] == ["addmm+relu", "hardtanh", "addmm"]


def test_fusing_what_is_fused_changes_nothing() -> None:
    graph = lower_graph(to_edge(torch.export.export(Block(nn.ReLU()), (IMAGE,))).exported_program())
    before = graph.encode()
    fuse(graph)
    assert graph.encode() == before


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_fused_results_are_eagers(device: vulkan.Device, bias: bool, affine: bool) -> None:
    block = Block(nn.ReLU6(), bias=bias, affine=affine)
    sizes = {"x": {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}}
    model = etarena.export(block, (IMAGE,), dynamic_shapes=sizes, partitioners=[etarena.VulkanPartitioner()])
    method = etarena.load(model.buffer, etarena.Arena(), vulkan=device).method()
    for shape in [(1, 4, 3, 3), (3, 4, 17, 5)]:
        x = torch.randn(shape) * 4
        with torch.no_grad():
            torch.testing.assert_close(method.execute([x])[0], block(x), rtol=1e-4, atol=1e-5)


class Residual(nn.Module):
    """Sums and products with an activation behind each."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """All that is fused, and a tanh that is not."""
        summed = torch.relu(torch.add(x, y, alpha=0.5))
        scaled = (summed * y[:, :1]).clamp(-0.5, 0.75) - 1.5
        return torch.tanh(nn.functional.relu6(scaled / 0.25)) + torch.relu(x - y)


def test_arithmetic_takes_activations(device: vulkan.Device) -> None:
    """Of broadcast operands and numbers too; NaN stays NaN."""
    x, y = torch.randn(3, 5, 7), torch.randn(3, 5, 7)
    found = [name for name in names(Residual(), x, y) if name != "slice_copy"]
    assert found == ["add+relu", "mul+clamp", "sub", "div+clamp", "tanh", "sub+relu", "add"]
    sizes = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    model = etarena.export(Residual(), (x, y), dynamic_shapes=sizes, partitioners=[etarena.VulkanPartitioner()])
    method = etarena.load(model.buffer, etarena.Arena(), vulkan=device).method()
    for count in (3, 1, 8):
        x, y = torch.randn(count, 5, 7) * 4, torch.randn(count, 5, 7) * 4
        x[0, 0, 3] = y[0, 2, 1] = float("nan")
        torch.testing.assert_close(method.execute([x, y])[0], Residual()(x, y), rtol=1e-4, atol=1e-5, equal_nan=True)
