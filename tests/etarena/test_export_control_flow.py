"""Branches and loops: right numbers whichever way is taken, results that are alive together, nothing overwritten."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops import scan
from torch._higher_order_ops.map import map as map_rows
from torch.export import Dim

import etarena
from etarena.allocator.plan import Kind

from ..helpers.memory_walk import MemoryWalk
from ..helpers.oracle import run_and_compare

DYNAMIC = Dim.DYNAMIC
UP = torch.tensor([1.0, 2.0, 3.0])


def up_or_down(x):
    return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))


class ConsecutiveBranches(nn.Module):
    def forward(self, x):
        a = up_or_down(x)
        b = torch.cond(x.sum() > -1e9, lambda v: v * 10, lambda v: v * 100, (x,))
        c = torch.cond(x.sum() > 2, lambda v: v - 7, lambda v: v + 7, (x,))
        return a + b, a, b, c


class NestedBranches(nn.Module):
    def forward(self, x):
        def outer(v, w):
            u = v * 2
            return u + torch.cond(w.sum() > 0, lambda q: q + 5, lambda q: q - 5, (w,))

        a = up_or_down(x)
        b = torch.cond(x.sum() > -2, outer, lambda v, w: v * w, (x, a))
        return a, b, a + b


class BranchesOfConstants(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.tensor([7.0, 8.0, 9.0]))

    def forward(self, x):
        a = torch.cond(x.sum() > 0, lambda v: v.clone(), lambda v: self.offset.clone(), (x,))
        b = torch.cond(x.sum() > 0, lambda: torch.full((2,), 3), lambda: torch.full((2,), 4))
        return a, b


class BranchWithEqualResults(nn.Module):
    def forward(self, x):
        def same(v):
            t = v + 1
            return t.clone(), t.clone(), t.view(-1)

        return torch.cond(x.sum() > 0, same, lambda v: (v * 2, v * 3, v * 4), (x,))


class BranchInside(nn.Module):
    def forward(self, x):
        return torch.sin(up_or_down(torch.cos(x) + x).view(-1)) * 2 + x


BRANCHES = [ConsecutiveBranches, NestedBranches, BranchesOfConstants, BranchWithEqualResults, BranchInside]


@pytest.mark.parametrize("model", BRANCHES, ids=lambda model: model.__name__)
def test_branches_equal_eager_whichever_way_they_go(model):
    is_fixed = model is BranchesOfConstants
    shapes = None if is_fixed else {"x": {0: DYNAMIC}}
    calls = [(UP,), (-UP,), (UP * 10,), (-UP * 10,)]
    if not is_fixed:
        calls += [(torch.ones(n),) for n in (7, 1, 0)] + [(UP,)]
    run_and_compare(model(), (UP,), shapes, calls)


@pytest.mark.parametrize("model", BRANCHES, ids=lambda model: model.__name__)
def test_no_path_reads_what_was_overwritten(model):
    walk = MemoryWalk(etarena.export(model(), (UP,)))
    assert walk.paths > 1
    assert walk.errors == []


def test_results_of_both_branches_use_one_block():
    section = etarena.export(ConsecutiveBranches(), (UP,), dynamic_shapes={"x": {0: DYNAMIC}}).plan()
    block = section.values[section.outputs[1].value].storage
    users = [value for value in section.values if section.values[value.storage] is section.values[block]]
    assert [value.name for value in users] == ["cond", "submodule_0.aten_add_tensor", "submodule_1.aten_sub_tensor"]
    assert {value.kind for value in users} == {Kind.OUTPUT}


class Scan(nn.Module):
    def forward(self, start, rows):
        return scan(lambda carry, row: (carry + row, (carry * row).relu()), start, rows)


class Map(nn.Module):
    def forward(self, rows, offset):
        return map_rows(lambda row, v: torch.sin(row + v) * 2, rows, offset)


def test_a_loop_over_any_number_of_rows():
    calls = [(torch.randn(3), torch.randn(n, 3)) for n in (1, 2, 7, 3)]
    run_and_compare(Scan(), (torch.randn(3), torch.randn(4, 3)), {"start": None, "rows": {0: DYNAMIC}}, calls)


class Viewed(nn.Module):
    """Branches within a loop, a view of what the loop stacks, and a loop over that."""

    def forward(self, rows, offset):
        def one(row, v):
            return torch.cond(row.sum() > 0, lambda r, w: r.sin() + w, lambda r, w: r.cos() * w - 1, (row, v))

        stacked = map_rows(one, rows, offset)
        return stacked.view(-1), map_rows(lambda row: row * 2, stacked)


@pytest.mark.parametrize("model", [Map, Viewed])
def test_loops_over_a_fixed_number_of_rows(model):
    calls = [(torch.randn(4, 3), torch.randn(3)) for _ in range(3)]
    run_and_compare(model(), calls[0], None, calls)
    run_and_compare(Scan(), calls[0][::-1], None, [call[::-1] for call in calls])


def test_a_loop_over_rows_of_any_length():
    calls = [(torch.randn(4, n), torch.randn(n)) for n in (1, 5, 3)]
    run_and_compare(Map(), (torch.randn(4, 3), torch.randn(3)), {"rows": {1: DYNAMIC}, "offset": {0: DYNAMIC}}, calls)


@pytest.mark.parametrize(
    ("model", "inputs"), [(Scan, (torch.randn(3), torch.randn(4, 3))), (Map, (torch.randn(4, 3), torch.randn(3)))]
)
def test_no_round_of_a_loop_reads_what_another_has_overwritten(model, inputs):
    walk = MemoryWalk(etarena.export(model(), inputs))
    assert walk.paths > 2
    assert walk.errors == []


def test_a_map_over_any_number_of_rows():
    calls = [(torch.randn(n, 3), torch.randn(3)) for n in (1, 5, 3)]
    run_and_compare(Map(), (torch.randn(4, 3), torch.randn(3)), {"rows": {0: DYNAMIC}, "offset": None}, calls)


@pytest.mark.parametrize(
    "holds",
    [
        lambda x: x.sum() > 0,
        lambda x: x.any(),
        lambda x: bool((x == 1).all()),
        lambda x: x.sum().item() > 1,
        lambda x: x.argmax().item() == 1,
        lambda x: x.long()[0] > 1,
    ],
)
def test_a_python_branch_on_data_is_refused_not_decided(holds):
    class Branching(nn.Module):
        def forward(self, x):
            return x + 1 if holds(x) else x - 1

    with pytest.raises(etarena.ExportError, match="data-dependent"):
        etarena.export(Branching(), (UP,), dynamic_shapes=({0: DYNAMIC},))


def test_a_model_of_the_same_class_exported_before_with_fixed_sizes_decides_nothing():
    inputs = torch.randn(4, 3), torch.randn(3)
    etarena.export(Map(), inputs)
    run_and_compare(Map(), inputs, {"rows": {0: DYNAMIC}, "offset": None}, [(torch.randn(7, 3), torch.randn(3))])
