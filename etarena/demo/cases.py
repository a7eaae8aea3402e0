"""Two small models whose worst case nobody should pay for: stock planning reserves it whatever the input."""

import torch
from torch import Tensor, nn

from .initialise import initialise
from .inputs import VOCABULARY, photograph, tokens
from .models import DemoModel

__all__ = ["CASES", "conv_case", "embedding_case"]


class _EmbeddingLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.linear = nn.Linear(16, 512)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.embedding(ids))
        return logits


class _ConvMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.relu(self.conv(pixels)).mean((2, 3))


def embedding_case() -> DemoModel:
    """Embedding(512, 16) and Linear(16, 512) over up to 2048 ids: stock plans 8,388,608 bytes."""
    module = initialise(_EmbeddingLinear(), tokens(64))
    sizes = ((1,), (7,), (64,), (512,), (2048,))
    return DemoModel("embedding_linear", "Embedding + Linear", "CPU kernels", module, "tokens", {1: "n"}, (37,), sizes)


def conv_case() -> DemoModel:
    """A 3x3 convolution to 16 channels, relu, global mean, over up to 2160 x 3840 pixels: stock plans 1 GB."""
    module = initialise(_ConvMean(), photograph("flower", 64, 96))
    sizes = ((64, 64), (97, 131), (240, 320), (2160, 3840))
    dynamic = {2: "height", 3: "width"}
    return DemoModel("conv_mean", "Conv2d, global mean", "CPU kernels", module, "px", dynamic, (48, 80), sizes)


CASES = {"embedding_linear": embedding_case, "conv_mean": conv_case}
"""The cases by name."""
