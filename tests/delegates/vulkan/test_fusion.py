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


class Enlarged(nn.Module):
    """Pictures made larger, with sums behind them."""

    def __init__(self, factor: float, *, corners: bool = False) -> None:
        super().__init__()
        self.factor, self.corners = factor, corners

    def wide(self, x: torch.Tensor) -> torch.Tensor:
        """Larger."""
        return nn.functional.interpolate(x, scale_factor=self.factor, mode="bilinear", align_corners=self.corners)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two sums that become one with what they add to."""
        one = torch.add(self.wide(x), y, alpha=-0.5).clamp(-0.5, 0.75)
        return one, torch.relu(torch.add(y * 2, self.wide(x - 1), alpha=3)) + y


class Apart(Enlarged):
    """Sums that must not: of other sizes, of nearest pixels, of what is read twice."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """All in one."""
        wide = self.wide(x)
        near = nn.functional.interpolate(x, scale_factor=self.factor, mode="nearest")
        return (self.wide(x * 2) + y[:, :1]) * (wide + y) - wide + (near + y)


@pytest.mark.parametrize(
    ("dtype", "factor", "corners"),
    [(torch.float32, 4.0, False), (torch.float16, 4.0, True), (torch.float32, 2.0, True), (torch.float16, 2.0, False)],
    ids=str,
)
def test_what_is_resized_takes_a_sum(device: vulkan.Device, dtype: torch.dtype, factor: float, corners: bool) -> None:
    """In both orders; four numbers at a time or one; NaN stays NaN."""
    model = Enlarged(factor, corners=corners)
    scale = int(factor)

    def given(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.randn(1, 3, height, width), torch.randn(1, 3, scale * height, scale * width)
        y[0, 1, 0, 1] = float("nan")
        return x.to(dtype), y.to(dtype)

    sizes = [torch.export.Dim(name, min=1, max=64) for name in ("height", "width")]
    shapes = {"x": dict(enumerate(sizes, 2)), "y": {i: scale * size for i, size in enumerate(sizes, 2)}}
    partitioners = [etarena.VulkanPartitioner()]
    file = etarena.export(model, given(3, 5), dynamic_shapes=shapes, partitioners=partitioners).buffer
    method = etarena.load(file, etarena.Arena(poison=True), vulkan=device).method()
    tolerance = 1e-2 if dtype == torch.float16 else 1e-4
    for height, width in [(3, 5), (1, 1), (7, 4), (16, 9), (3, 5)]:
        x, y = given(height, width)
        for found, expected in zip(method.execute([x, y]), model(x, y), strict=True):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_sums_become_one_with_what_is_resized_where_they_can(device: vulkan.Device) -> None:
    x, y = torch.randn(1, 3, 4, 5), torch.randn(1, 3, 16, 20)

    def kinds(model: nn.Module) -> list[str]:
        return [name for name in names(model, x, y) if "add" in name or "upsample" in name]

    assert kinds(Enlarged(4.0)) == ["upsample_bilinear2d+clamp", "upsample_bilinear2d+relu", "add"]
    assert sorted(kinds(Apart(4.0))) == ["add"] * 4 + ["upsample_bilinear2d"] * 2 + ["upsample_nearest2d"]
    file = etarena.export(Apart(4.0), (x, y), partitioners=[etarena.VulkanPartitioner()]).buffer
    method = etarena.load(file, etarena.Arena(poison=True), vulkan=device).method()
    torch.testing.assert_close(method.execute([x, y])[0], Apart(4.0)(x, y), rtol=1e-4, atol=1e-4)
