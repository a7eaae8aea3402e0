"""Loops in which data tells sizes, another in every round: counts of non-zero elements, ints that a loop carries."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.control_flow import cond, map_rows, scan, while_loop
from ..helpers.oracle import run_and_compare

DYNAMIC = Dim.DYNAMIC


class SizedByRound(nn.Module):
    """Temporaries as long as the number of the round, which starts below zero."""

    def forward(self, x):
        return while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v + torch.ones(i + 4).sum()), (-3, x))


class ResultOfSize(nn.Module):
    """A loop's int is the size of what comes after it."""

    def forward(self, x):
        count, y = while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 2), (x.shape[0] - 3, x))
        return torch.zeros(count + 1) + x.sum(), y


class SwappedInts(nn.Module):
    def forward(self, x):
        def body(i, j, v):
            return j, i + 2, v + torch.ones(i).sum() - torch.ones(j).sum() * 2

        return while_loop(lambda i, j, v: i < 9, body, (0, 3, x))


class CountedInLoop(nn.Module):
    def forward(self, x):
        def body(i, v):
            found = torch.nonzero(torch.cos(v * 3) > 0).to(torch.float32)
            return i + 1, torch.sin(v * 2) + found.sum() * 0.01

        return while_loop(lambda i, v: i < 9, body, (0, x))


class CountedInScan(nn.Module):
    def forward(self, x):
        def step(carry, row):
            return carry + torch.nonzero(row > 0).to(torch.float32).sum(), row * 2

        return scan(step, torch.zeros(()), x)


class CountedInMap(nn.Module):
    def forward(self, x):
        return map_rows(lambda row: torch.nonzero(row > 0).to(torch.float32).sum(), x)


class CountedInBranchInLoop(nn.Module):
    def forward(self, x):
        def body(i, v):
            def count(v):
                return v - torch.nonzero(v > 0).to(torch.float32).sum()

            return i + 1, cond(v.sum() > 0, count, lambda v: v + 3, (v,))

        return while_loop(lambda i, v: i < 6, body, (0, x))


def vectors(*sizes):
    return [(torch.randn(size),) for size in sizes]


def matrices(*shapes):
    return [(torch.randn(*shape),) for shape in shapes]


CASES = {
    SizedByRound: (vectors(40, 20, 1), {"x": {0: DYNAMIC}}),
    ResultOfSize: (vectors(4, 3, 7), {"x": {0: DYNAMIC}}),
    SwappedInts: (vectors(40, 3), {"x": {0: DYNAMIC}}),
    CountedInLoop: (vectors(300, 6, 4000, 1000), {"x": {0: DYNAMIC}}),
    CountedInScan: (matrices((3, 40), (6, 2), (4, 300)), {"x": {0: DYNAMIC, 1: DYNAMIC}}),
    CountedInMap: (matrices((3, 40), (6, 2), (4, 300)), {"x": {0: DYNAMIC, 1: DYNAMIC}}),
    CountedInBranchInLoop: (vectors(30, 2, 100), {"x": {0: DYNAMIC}}),
}


@pytest.mark.parametrize("model", CASES, ids=lambda model: model.__name__)
def test_every_round_has_the_sizes_that_its_data_tells(model):
    calls, shapes = CASES[model]
    torch.manual_seed(1)
    run_and_compare(model(), calls[0], shapes, [*calls, calls[0]])


def test_ints_that_no_size_needs_are_no_discoveries():
    class Counting(nn.Module):
        def forward(self, x):
            return while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 2), (0, x))

    section = etarena.export(Counting(), (torch.ones(3),), dynamic_shapes={"x": {0: DYNAMIC}}).plan()
    assert section.discoveries == []
