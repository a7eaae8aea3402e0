"""A painter: convolutions with weights made by hand: ink along edges, contrast, and bright things that glow."""

from __future__ import annotations

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import Tensor, nn

import etarena

__all__ = ["REDUCTION", "Painter", "export_painter"]

REDUCTION = 4
"""Heights and widths are multiples of this."""
SKIPPED = ("aten.convolution.default", "aten.relu.default", "aten.cat.default")  # XNNPACK's part
BRIGHT = 0.6  # what is above glows
CONTRAST = 0.45  # of a texel against its surroundings
INK, LEAST_EDGE = 1.1, 0.22  # how dark, and from which step of brightness on
RIM = 5  # texels beyond the small picture's edge that the largest filter sees
GREY = (0.2126, 0.7152, 0.0722)  # ITU-R BT.709


def blur(channels: int, size: int, sigma: float) -> nn.Conv2d:
    """Each channel weighted by a Gaussian."""
    conv = nn.Conv2d(channels, channels, size, padding=size // 2, groups=channels, bias=False)
    x = torch.arange(size) - size // 2
    row = torch.exp(-(x**2) / (2 * sigma**2))
    conv.weight.data[:] = row[:, None] * row[None, :] / row.sum() ** 2
    return conv


class Painter(nn.Module):
    """(1, 3, height, width) to the same, 0 to 1: the convolutions work on a picture made small."""

    def __init__(self) -> None:
        super().__init__()
        self.around = blur(3, 7, 2.0)
        self.bright = nn.Conv2d(3, 3, 1)  # how much each colour is above the threshold, more so if the others are
        self.bright.weight.data[:] = (0.7 * torch.eye(3) + 0.3 * torch.tensor(GREY))[:, :, None, None]
        self.bright.bias.data[:] = -BRIGHT
        self.glow = blur(3, 11, 3.0)
        self.edges = nn.Conv2d(3, 4, 3, padding=1, padding_mode="zeros")  # Sobel's, both ways in both directions
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 4
        filters = torch.stack([sobel, -sobel, sobel.T, -sobel.T])
        self.edges.weight.data[:] = filters[:, None] * torch.tensor(GREY)[None, :, None, None]
        self.edges.bias.data[:] = -LEAST_EDGE
        self.mixing = nn.Conv2d(10, 3, 1)
        parts = (-CONTRAST * torch.eye(3), 1.9 * torch.eye(3), -INK * torch.ones(3, 4))
        self.mixing.weight.data[:] = torch.cat(parts, 1)[:, :, None, None]
        self.mixing.bias.data[:] = -0.02

    def forward(self, x: Tensor) -> Tensor:
        """Paint."""
        small = nn.functional.pad(nn.functional.avg_pool2d(x, REDUCTION), [RIM] * 4, mode="replicate")
        glow = self.glow(torch.relu(self.bright(small)))
        ink = torch.relu(self.edges(small))
        change = self.mixing(torch.cat([self.around(small), glow, ink], 1))
        change = change[:, :, RIM:-RIM, RIM:-RIM]
        wide = nn.functional.interpolate(change, scale_factor=float(REDUCTION), mode="bilinear")
        return torch.add(wide, x, alpha=1 + CONTRAST).clamp(0, 1)


def export_painter(device: str, *, xnnpack_alone: bool = False) -> bytes:
    """Export it for pictures of any size, the small picture's convolutions on XNNPACK and the rest on Vulkan.

    Parameters
    ----------
    device
        Where pictures go in and come out: ``"vulkan"`` or ``"cpu"``.
    xnnpack_alone
        Leave Vulkan out.
    """
    rows, columns = (REDUCTION * torch.export.Dim(name, min=2, max=1024) for name in ("rows", "columns"))
    vulkan = [] if xnnpack_alone else [etarena.VulkanPartitioner(skip=SKIPPED)]
    return etarena.export(
        Painter().eval(),
        (torch.rand(1, 3, 8 * REDUCTION, 12 * REDUCTION),),
        dynamic_shapes={"x": {2: rows, 3: columns}},
        partitioners=[*vulkan, XnnpackPartitioner()],
        input_devices={"x": device},
        output_devices=device,
        copies="error",
    ).buffer
