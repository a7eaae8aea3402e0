"""Networks whose own data decides what runs: exits, skipped blocks, experts, trees, crops and steps.

Each is a small form of a published structure, with seeded weights and one size, for plans of whole trees of graphs.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan

__all__ = ["BRANCHING"]

Example = tuple[nn.Module, tuple[Tensor, ...]]


def _convolutions(width: int, inside: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, inside, 3, padding=1), nn.ReLU(), nn.Conv2d(inside, width, 3, padding=1))


class EarlyExit(nn.Module):
    """A classifier that stops after its first stage when that is sure enough (BranchyNet, Teerapittayanon, 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), _convolutions(16, 32))
        self.later = nn.Sequential(nn.Conv2d(16, 64, 3, stride=2, padding=1), nn.ReLU(), _convolutions(64, 96))
        self.exits = nn.ModuleList((nn.Linear(16, 10), nn.Linear(64, 10)))

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.stem(pixels)
        first = self.exits[0](features.mean((2, 3)))

        def leave(_: Tensor, logits: Tensor) -> Tensor:
            return logits * 1.0

        def go_on(features: Tensor, _: Tensor) -> Tensor:
            return self.exits[1](self.later(features).mean((2, 3)))

        logits: Tensor = torch.cond(first.softmax(1).max() > 0.9, leave, go_on, (features, first))
        return logits


class SkippedBlocks(nn.Module):
    """Residual blocks, each of which a gate may leave out (SkipNet, Wang et al., 2018)."""

    def __init__(self, blocks: int = 3, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(4 * width, width, 1))
        self.blocks = nn.ModuleList(_convolutions(width, 3 * width) for _ in range(blocks))
        self.gates = nn.ModuleList(nn.Linear(width, 1) for _ in range(blocks))

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.stem(pixels)
        for block, gate in zip(self.blocks, self.gates, strict=True):

            def run(features: Tensor, block: nn.Module = block) -> Tensor:
                return features + block(features)

            wanted = gate(features.mean((2, 3))).mean() > 0
            features = torch.cond(wanted, run, lambda features: features * 1.0, (features,))
        pooled: Tensor = features.mean((2, 3))
        return pooled


class TwoExperts(nn.Module):
    """Feed-forward layers of which one of two sizes runs (switch routing for a whole batch, Fedus et al., 2021)."""

    def __init__(self, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.routers = nn.ModuleList(nn.Linear(width, 1) for _ in range(layers))
        self.large = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 8 * width), nn.GELU(), nn.Linear(8 * width, width)) for _ in range(layers)
        )
        self.small = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(layers)
        )
        self.mix = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(layers))

    def forward(self, rows: Tensor) -> Tensor:
        for router, large, small, mix in zip(self.routers, self.large, self.small, self.mix, strict=True):
            first, second, third = mix(rows).chunk(3, 1)
            rows = rows + (first.tanh() * second.sigmoid() + third).unflatten(1, (2, -1)).sum(1)
            rows = rows + torch.cond(router(rows).mean() > 0, large, small, (rows,))
        return rows


class CoarseToFine(nn.Module):
    """A tree of classifiers: a branch at the root, and another within it (hierarchical CNNs, Yan et al., 2015)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 3 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(3 * width, width, 1))
        self.inner = nn.ModuleList(_convolutions(width, 3 * width) for _ in range(2))
        self.leaves = nn.ModuleList(nn.Conv2d(width, 4 * width, 3, padding=1) for _ in range(3))
        self.choice = nn.Linear(width, 2)

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.stem(pixels)
        choice = self.choice(features.mean((0, 2, 3)))

        def left(features: Tensor, choice: Tensor) -> Tensor:
            features = features + self.inner[0](features)
            return torch.cond(
                choice[1] > 0,
                lambda features: self.leaves[0](features).mean((2, 3)),
                lambda features: self.leaves[1](features).mean((2, 3)),
                (features,),
            )

        def right(features: Tensor, _: Tensor) -> Tensor:
            return self.leaves[2](self.inner[1](features)).mean((2, 3))

        scores: Tensor = torch.cond(choice[0] > 0, left, right, (features, choice))
        return scores


class Crops(nn.Module):
    """A network that is run on one crop after the other, beside one that sees all of them at once."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.whole = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 8, 3, padding=1))
        self.crop = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 8, 3, padding=1))

    def forward(self, crops: Tensor) -> Tensor:
        around = self.whole(crops).mean((0, 2, 3))
        local = map_rows(lambda crop: self.crop(crop[None])[0].mean((1, 2)), crops)
        result: Tensor = local + around
        return result


class Steps(nn.Module):
    """An encoder, a gated recurrence over its rows as a scan, and a decoder (Cho et al., 2014)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.update, self.fresh = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.decode = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 16))

    def forward(self, series: Tensor) -> Tensor:
        def advance(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            both = torch.cat([state, row], 1)
            update = self.update(both).sigmoid()
            state = update * state + (1 - update) * self.fresh(both).tanh()
            return state, state.clone()

        rows = self.encode(series)
        decoded: Tensor = self.decode(scan(advance, rows[0] * 0, rows)[1])
        return decoded


def _example(build: Callable[[], nn.Module], *shape: int) -> Callable[[], Example]:
    def make() -> Example:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return build().eval(), (torch.randn(shape),)

    return make


BRANCHING: dict[str, Callable[[], Example]] = {
    "early exit": _example(EarlyExit, 1, 3, 32, 32),
    "skipped blocks": _example(SkippedBlocks, 1, 3, 32, 32),
    "two experts": _example(TwoExperts, 64, 64),
    "coarse to fine": _example(CoarseToFine, 1, 3, 32, 32),
    "crops": _example(Crops, 6, 3, 24, 24),
    "steps": _example(Steps, 40, 4, 16),
}
"""What makes each module and its input, by name."""
