"""Memory of runs in stages: close to the lower bound, buffers that move stay whole, plans of stages are kept."""

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn
from torch.export import Dim

from ..helpers.oracle import load_exported, run_and_compare

ANY = Dim.DYNAMIC


class Detector(nn.Module):
    """Static work before and beside what is selected, and several selections one after another."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        wide = self.first(x).relu()
        narrow = self.second(wide)
        chosen = narrow[narrow.sum(1) > 0]
        again = self.second(self.first(chosen).relu())
        best = again[again[:, 0] > 0]
        return best.exp().sum(0), (narrow * 2).sum(0), wide.amax(0)


def features(*counts):
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(n, 16, generator=generator),) for n in counts]


@pytest.mark.parametrize("partitioners", [[], [XnnpackPartitioner()]], ids=["kernels", "xnnpack"])
def test_selections_between_dense_layers_need_no_more_than_what_lives(partitioners):
    calls = features(100, 1000, 10, 1, 100)
    ratios = []

    def note(method):
        if method.last_run is not None:
            ratios.append(method.last_run.arena_bytes / max(method.last_run.lower_bound_bytes, 1))

    program = run_and_compare(
        Detector(), calls[0], ({0: ANY},), [*calls, calls[0]], before=note, partitioners=partitioners
    )
    assert ratios[0] <= 1.03
    assert max(ratios[:3]) <= 1.03
    assert program.method() is not None


class Moving(nn.Module):
    """What is told is larger than the gaps between the buffers that live on: one of them must make room."""

    def forward(self, x):
        column = (x * 2)[:, :1] + 1
        sums = (x.exp() * 3).sum(1, keepdim=True) + column
        chosen = torch.masked_select(x, x > 0).cumsum(0)
        return torch.cat([chosen, chosen, chosen]).cumsum(0).sum() * sums * column


def test_buffers_that_move_keep_what_they_hold():
    generator = torch.Generator().manual_seed(2)
    calls = [torch.randn(n, 40, generator=generator) for n in (64, 3, 200, 64)]
    program = load_exported(Moving(), (calls[0],), ({0: ANY},))
    method = program.method()
    moved = []
    for x in [*calls, calls[0]]:
        program.arena.scribble()
        (actual,) = method.execute([x])
        torch.testing.assert_close(actual, Moving()(x), rtol=1e-3, atol=1e-2)
        moved.append(method.last_run.moved_bytes)
        assert method.last_run.arena_bytes <= 1.03 * method.last_run.lower_bound_bytes
    assert max(moved) > 0
    assert moved[0] == moved[-1]
    assert method.last_run.bytes_copied == 0


class Select(nn.Module):
    def forward(self, x):
        positive = x[x > 0] * 2
        return positive[positive > 3].square()


def test_stages_that_were_planned_before_are_not_planned_again():
    method = load_exported(Select(), (torch.randn(8),), ({0: ANY},)).method()
    one, other = torch.tensor([1.0, 2, 3, -4]), torch.tensor([1.0, -2, -3, -4])
    assert method.execute([one])[0].tolist() == [16.0, 36.0]
    first = method.last_run
    assert (first.plan_cached, first.stages) == (False, 3)
    method.execute([one])
    assert (method.last_run.plan_cached, method.last_run.plan_ns, method.last_run.stages) == (True, 0, 3)
    assert method.execute([other])[0].tolist() == []
    assert not method.last_run.plan_cached
    assert method.execute([one.flip(0)])[0].tolist() == [36.0, 16.0]
    assert method.last_run.plan_cached
    assert method.last_run.arena_bytes == first.arena_bytes


def test_the_cache_of_stages_is_bounded():
    program = load_exported(Select(), (torch.randn(8),), ({0: ANY},))
    method = program.method()
    generator = torch.Generator().manual_seed(1)
    for _ in range(300):
        x = torch.randn(500, generator=generator)
        torch.testing.assert_close(method.execute([x])[0], Select()(x))
    assert method.cached_bytes <= method.cache_limit
