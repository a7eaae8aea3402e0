"""Switching to the plan of a shape seen before, and growth of the arena."""

import itertools
from statistics import median
from typing import Any

import torch

import etarena
from bench.side_by_side import in_turn
from etarena.quiet import quiet

TENSORS = 300
GROWTH = 64 << 20


class Chain(torch.nn.Module):
    """One small tensor after another, each of a size of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(TENSORS):
            x = torch.relu(x)
        return x


def test_switch_to_a_cached_plan(benchmark: Any) -> None:
    """One method with two shapes in turn, one with the same shape always: the difference is a switch."""
    with quiet():
        exported = etarena.export(Chain(), (torch.ones(4),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})
    steady, switching = (etarena.load(exported.buffer, etarena.Arena(name=name)).method() for name in "ab")
    small, large = [torch.ones(4)], [torch.ones(5)]
    turns = itertools.cycle((small, large))
    ways = {"same": lambda: steady.execute(small), "switch": lambda: switching.execute(next(turns))}
    samples = in_turn(ways, 2 if benchmark.disabled else 4000)
    assert switching.last_run.plan_cached
    benchmark.extra_info.update(
        tensors=len(switching.section.values),
        same_us=median(samples["same"]) / 1e3,
        switch_us=median(samples["switch"]) / 1e3,
        cost_us=median(two - one for one, two in zip(samples["same"], samples["switch"], strict=True)) / 1e3,
    )
    benchmark(ways["switch"])


def test_grow_the_arena(benchmark: Any) -> None:
    """Allow 64 MiB more for activations, without touching the pages; the base stays where it is."""
    arena = etarena.Arena(name="growth")
    base, targets = arena.base, itertools.count(GROWTH, GROWTH)
    rounds = 1 if benchmark.disabled else 200
    benchmark.pedantic(arena.ensure_activations, setup=lambda: ((next(targets),), {}), rounds=rounds)
    assert arena.base == base
    benchmark.extra_info.update(growth=GROWTH)
