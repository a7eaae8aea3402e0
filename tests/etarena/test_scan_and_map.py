"""``scan`` and ``map``: any number of rows, several at once, swaps, and each inside the other, branches and loops."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.control_flow import cond, map_rows, scan, while_loop
from ..helpers.memory_walk import MemoryWalk
from ..helpers.oracle import load_exported, run_and_compare

DYNAMIC = Dim.DYNAMIC


class SwappingScan(nn.Module):
    """The carries change places, and the stacked result is what a carry was before the round."""

    def forward(self, a, b, x):
        return scan(lambda carry, row: ((carry[1].clone(), carry[0] + row), carry[0].clone()), (a, b), x)


class TwoRows(nn.Module):
    def forward(self, a, b):
        return map_rows(lambda row: (row[0] + row[1], row[0] * 3), (a, b))


class ScanInMap(nn.Module):
    def forward(self, x):
        def sums(block):
            return scan(lambda carry, row: (carry + row, carry * row), block[0] * 1, block)[0]

        return map_rows(sums, x)


class MapInScan(nn.Module):
    def forward(self, x, start):
        def step(carry, block):
            return carry + map_rows(lambda row: row * 2, block).sum(0), carry.clone()

        return scan(step, start, x)


class BranchInScan(nn.Module):
    def forward(self, x, start):
        def step(carry, row):
            new = cond(row.sum() > 0, lambda c, r: c + r, lambda c, r: c - r * 2, (carry, row))
            return new, carry * 2

        return scan(step, start, x)


class ScanInLoop(nn.Module):
    def forward(self, x, start):
        def body(i, carry):
            last, stacked = scan(lambda c, row: (c + row, c * row), carry, x)
            return i + 1, last + stacked.mean(0)

        return while_loop(lambda i, c: i < 3, body, (0, start))


def shaped(*shapes):
    return tuple(torch.randn(*shape) for shape in shapes)


CASES = {
    "swapping_scan": (
        SwappingScan(),
        shaped((4,), (4,), (3, 4)),
        {"a": {0: DYNAMIC}, "b": {0: DYNAMIC}, "x": {0: DYNAMIC, 1: DYNAMIC}},
        [shaped((2,), (2,), (5, 2)), shaped((1,), (1,), (1, 1))],
    ),
    "two_rows": (TwoRows(), shaped((3, 4), (3, 4)), {"a": {0: DYNAMIC}, "b": {0: DYNAMIC}}, [shaped((7, 4), (7, 4))]),
    "scan_in_map": (ScanInMap(), shaped((2, 3, 4)), {"x": {0: DYNAMIC, 1: DYNAMIC, 2: DYNAMIC}}, [shaped((3, 1, 2))]),
    "map_in_scan": (
        MapInScan(),
        shaped((2, 3, 4), (4,)),
        {"x": {0: DYNAMIC, 1: DYNAMIC}, "start": None},
        [shaped((3, 1, 4), (4,))],
    ),
    "branch_in_scan": (
        BranchInScan(),
        shaped((3, 4), (4,)),
        {"x": {0: DYNAMIC}, "start": None},
        [shaped((9, 4), (4,))],
    ),
    "scan_in_loop": (
        ScanInLoop(),
        shaped((3, 4), (4,)),
        {"x": {0: DYNAMIC}, "start": None},
        [shaped((5, 4), (4,)), shaped((1, 4), (4,))],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_equal_eager(case):
    model, example, shapes, calls = CASES[case]
    run_and_compare(model, example, shapes, [example, *calls, example])


@pytest.mark.parametrize("case", CASES)
def test_no_round_reads_what_another_has_overwritten(case):
    model, example, _, _ = CASES[case]
    walk = MemoryWalk(etarena.export(model, example))
    assert walk.paths > 2
    assert walk.errors == []


class Rows(nn.Module):
    def forward(self, x, start):
        stacked = map_rows(lambda row: row * 2 + 1, x)
        return stacked, scan(lambda carry, row: (carry + row, carry * row), start, x)


def test_no_rows_at_all():
    """Eager refuses this; the loop simply does not run."""
    program = load_exported(Rows(), shaped((3, 4), (4,)), {"x": {0: DYNAMIC}, "start": None})
    method = program.method()
    start = torch.randn(4)
    program.arena.scribble()
    stacked, last, products = method(torch.empty(0, 4), start)
    assert stacked.shape == products.shape == (0, 4)
    assert torch.equal(last, start)
    x = torch.randn(2, 4)
    assert torch.equal(method(x, start)[0], x * 2 + 1)
