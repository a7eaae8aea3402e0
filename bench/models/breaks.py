"""Networks that XNNPACK takes in parts, with work for the CPU's kernels in between."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from .model import Inputs, Model, image, model, seeded, subject


class _Residual(nn.Module):
    """Two convolutions with a group norm before each, which is a kernel of the CPU (as in Ho et al., 2020)."""

    def __init__(self, inputs: int, outputs: int, groups: int = 4) -> None:
        super().__init__()
        self.norms = nn.ModuleList((nn.GroupNorm(groups, inputs), nn.GroupNorm(groups, outputs)))
        self.convolutions = nn.ModuleList(
            (nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1))
        )
        self.around = nn.Conv2d(inputs, outputs, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        around = self.around(pixels)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            pixels = convolution(functional.silu(norm(pixels)))
        return pixels + around


class _NormedUNet(nn.Module):
    """The U-Net of diffusion models without its attention: group norms, residual blocks, transposed convolutions."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 48)) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(_Residual(width, width) for width in widths)
        self.shrink = nn.ModuleList(nn.Conv2d(*pair, 3, stride=2, padding=1) for pair in pairwise(widths))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(low, high, 4, 2, 1) for high, low in pairwise(widths))
        self.up = nn.ModuleList(_Residual(2 * width, width) for width in widths[:-1])
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        pixels = self.stem(pixels)
        skipped: list[Tensor] = []
        for block, shrink in zip(self.down, self.shrink, strict=False):
            pixels = block(pixels)
            skipped.append(pixels)
            pixels = shrink(pixels)
        pixels = self.down[-1](pixels)
        for grow, block, skip in zip(reversed(self.grow), reversed(self.up), reversed(skipped), strict=True):
            pixels = block(torch.cat([grow(pixels), skip], 1))
        logits: Tensor = self.head(pixels)
        return logits


@model("segmentation")
def normed_unet() -> Model:
    """A U-Net of three levels whose group norms stay on the CPU; sides are multiples of four."""
    sizes = [(1, 16, 16), (1, 32, 48), (2, 32, 64), (1, 64, 64), (1, 96, 128), (1, 128, 128)]
    dynamic = ({0: "batch", 2: "height", 3: "width"},)
    return subject(_NormedUNet(), image, dynamic, sizes, (3, 24, 40))


class _Selected(nn.Module):
    """A network, what its rows with a positive sum have in common, and another network told that.

    XNNPACK's partitioner takes nothing whose size is in the data: the selected rows themselves stay on the CPU.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.after = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 8))

    def forward(self, rows: Tensor) -> Tensor:
        rows = self.before(rows)
        chosen = torch.nonzero(rows.sum(1) > 0)
        common = torch.tanh(rows[chosen]).sum(0) * 0.01
        result: Tensor = self.after(rows + common)
        return result


def _rows(width: int) -> Inputs:
    def make(size: tuple[int, ...]) -> tuple[Tensor]:
        return (torch.randn(*size, width, generator=seeded(size)),)

    return make


@model("selection", data_dependent=True)
def selected() -> Model:
    """``nonzero`` between two networks that XNNPACK runs."""
    sizes = [(2,), (7,), (64,), (65,), (500,), (4096,)]
    return subject(_Selected(), _rows(32), ({0: "rows"},), sizes, (11,))


class _KeyNormalised(nn.Module):
    """Attention whose weights sum to one over the queries (slot attention, Locatello et al., 2020).

    XNNPACK's softmax is over the last dimension only, so that this one is a kernel of the CPU between two products.
    """

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(4)) for _ in range(layers))

    def forward(self, rows: Tensor) -> Tensor:
        for query, key, value, out in self.layers:  # type: ignore[misc]
            scores = torch.bmm(query(rows), key(rows).transpose(1, 2)) / rows.shape[2] ** 0.5
            rows = rows + out(torch.bmm(scores.softmax(1), value(rows)))
        return rows


@model("slots")
def slot_attention() -> Model:
    """Two layers of attention whose softmax stays on the CPU."""
    sizes = [(1, 1), (1, 2), (2, 17), (3, 64), (1, 200), (1, 256)]
    return subject(_KeyNormalised(), _rows(32), ({0: "batch", 1: "length"},), sizes, (4, 11))
