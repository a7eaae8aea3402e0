"""``while_loop``: what it carries, how often it runs, what it leaves alone, and memory that no two things share."""

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.control_flow import cond, while_loop
from ..helpers.memory_walk import MemoryWalk
from ..helpers.oracle import load_exported, run_and_compare

DYNAMIC = Dim.DYNAMIC


class Doubling(nn.Module):
    """The loop of pytorch/executorch #8769."""

    def forward(self, x):
        return while_loop(lambda i, v: i.sum() < 5, lambda i, v: (i + 1, v * 2), (torch.zeros(1), x))


class Rotation(nn.Module):
    """Every carried value ends up in another place, ints too."""

    def forward(self, a, b, c):
        def rotate(i, j, a, b, c):
            return j, i + 1, b.clone(), c.clone(), a + b

        return while_loop(lambda i, j, a, b, c: i < 5, rotate, (0, 3, a, b, c))


class Unchanged(nn.Module):
    def forward(self, a, b):
        return while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a.clone(), b + a), (0, a, b))


class RoundsFromData(nn.Module):
    def forward(self, x, rounds):
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, v: i < rounds, lambda i, v: (i + 1, torch.sin(v) + i), (start, x))


class RoundsFromSize(nn.Module):
    def forward(self, x):
        return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v + i), (x.shape[0] - 2, x))


class CarriedBool(nn.Module):
    def forward(self, x):
        return while_loop(lambda go, v: go.clone(), lambda go, v: (v.sum() < 100, v * 2), (x.sum() < 100, x))


class Closure(nn.Module):
    """Reads a parameter, a buffer, and a value made before the loop, which is needed after it as well."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, 1.5, -1.0]))
        self.register_buffer("offset", torch.tensor([7.0, 8.0, 9.0]))

    def forward(self, x):
        outer = torch.cos(x)
        _, v = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * self.weight + self.offset + outer), (0, x))
        return v + outer, outer


class LoopInLoop(nn.Module):
    def forward(self, x):
        def outer(i, v):
            _, inner = while_loop(lambda j, w: j < i, lambda j, w: (j + 1, w * 2 + 1), (i - i, v))
            return i + 1, inner - v

        return while_loop(lambda i, v: i < 4, outer, (0, x))


class BranchInLoop(nn.Module):
    def forward(self, x):
        def body(i, v):
            w = cond(v.sum() > 0, lambda v: v - 3, lambda v: v + torch.sin(v.abs()), (v,))
            return i + 1, w + v / 2

        return while_loop(lambda i, v: i < 6, body, (0, x))


class LoopInBranch(nn.Module):
    def forward(self, x):
        def loop(v):
            return while_loop(lambda i, w: i < 3, lambda i, w: (i + 1, w * 2), (0, v))[1]

        y = torch.cos(x)
        return cond(x.sum() > 0, loop, lambda v: v - 1, (y,)), y


class InLayout(nn.Module):
    def forward(self, image):
        return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, torch.relu(v) - v.mean()), (0, image))[1]


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.relu(self.linear(x))
        _, v = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, torch.relu(self.linear(v)) + h), (0, x))
        return torch.relu(self.linear(v) + h)


class CarriedAndRead(nn.Module):
    """The start value is also read by every round."""

    def forward(self, x):
        return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, torch.sin(v) + x), (0, x))[1]


def rows(*sizes):
    return [tuple(torch.randn(n) for _ in range(count)) for count, n in sizes]


CASES = {
    "rotation": (Rotation(), rows((3, 500))[0], {name: {0: DYNAMIC} for name in "abc"}, rows((3, 7), (3, 1))),
    "unchanged": (Unchanged(), rows((2, 500))[0], {name: {0: DYNAMIC} for name in "ab"}, rows((2, 3))),
    "rounds_from_data": (
        RoundsFromData(),
        (torch.randn(500), torch.tensor(3)),
        {"x": {0: DYNAMIC}, "rounds": None},
        [(torch.randn(4), torch.tensor(rounds)) for rounds in (0, 1, 9)],
    ),
    "rounds_from_size": (RoundsFromSize(), rows((1, 3))[0], {"x": {0: DYNAMIC}}, rows((1, 1), (1, 6), (1, 9))),
    "carried_bool": (CarriedBool(), (torch.ones(500),), {"x": {0: DYNAMIC}}, [(torch.ones(3),), (torch.ones(2) * 90,)]),
    "closure": (Closure(), (torch.randn(3),), None, [(torch.randn(3),)]),
    "loop_in_loop": (LoopInLoop(), rows((1, 500))[0], {"x": {0: DYNAMIC}}, rows((1, 3), (1, 0))),
    "branch_in_loop": (BranchInLoop(), rows((1, 500))[0], {"x": {0: DYNAMIC}}, [(torch.ones(5),), (-torch.ones(2),)]),
    "loop_in_branch": (LoopInBranch(), rows((1, 500))[0], {"x": {0: DYNAMIC}}, [(torch.ones(5),), (-torch.ones(2),)]),
    "carried_and_read": (CarriedAndRead(), rows((1, 500))[0], {"x": {0: DYNAMIC}}, rows((1, 3), (1, 0))),
    "channels_last": (
        InLayout(),
        (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),),
        {"image": {2: DYNAMIC}},
        [(torch.randn(2, 3, 7, 5),), (torch.randn(2, 3, 2, 5).to(memory_format=torch.channels_last),)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_loop_equals_eager(case):
    model, example, shapes, calls = CASES[case]
    run_and_compare(model, example, shapes, [example, *calls, example])


@pytest.mark.parametrize("case", [case for case in CASES if case != "closure"])
def test_no_round_reads_what_another_has_overwritten(case):
    model, example, _, _ = CASES[case]
    walk = MemoryWalk(etarena.export(model, example))
    assert walk.paths > 2
    assert walk.errors == []


def test_executorch_8769_a_while_loop_with_a_tensor_condition():
    program = load_exported(Doubling(), (torch.ones(3),), {"x": {0: DYNAMIC}})
    program.arena.scribble()
    i, x = program.method()(torch.ones(3))
    assert i.tolist() == [5]
    assert x.tolist() == [32, 32, 32]
    run_and_compare(Doubling(), (torch.ones(3),), {"x": {0: DYNAMIC}}, [(torch.ones(n),) for n in (3, 1, 0, 7)])


class Counting(nn.Module):
    def forward(self, x, rounds):
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, v: i < rounds, lambda i, v: (i + 1, v + 1), (start, x))[1]


def test_a_loop_of_ten_thousand_rounds_and_one_of_none():
    method = load_exported(Counting(), (torch.zeros(3), torch.tensor(1)), {"x": {0: DYNAMIC}, "rounds": None}).method()
    for rounds, result in ((10_000, 10_000), (0, 0), (-5, 0), (1, 1)):
        (counted,) = method(torch.zeros(4), torch.tensor(rounds))
        assert counted.tolist() == [result] * 4


class LongBody(nn.Module):
    """Twelve temporaries a round, of which two are alive at a time."""

    def forward(self, x):
        def body(i, v):
            w = v
            for _ in range(6):
                w = torch.sin(torch.cos(w))
            return i + 1, w

        return while_loop(lambda i, v: i < 3, body, (0, x))[1] * 2


def test_what_a_round_makes_and_uses_up_shares_memory():
    program = run_and_compare(LongBody(), (torch.randn(1000),), {"x": {0: DYNAMIC}}, [(torch.randn(100_000),)])
    method = program.method()
    method(torch.randn(100_000))
    one = 400_000
    assert method.last_run.lower_bound_bytes <= 3 * one + 1024  # what is carried, and two temporaries
    assert method.last_run.arena_bytes <= 1.03 * method.last_run.lower_bound_bytes


def test_a_loop_beside_a_delegate_that_has_the_same_weights():
    model = Layers()
    calls = [(torch.randn(n, 4),) for n in (3, 1, 64)]
    program = run_and_compare(model, calls[0], {"x": {0: DYNAMIC}}, calls, partitioners=[XnnpackPartitioner()])
    assert len(program.method().section.delegates) >= 1


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        def body(i, v):
            self.total.add_(v)
            return i + 1, v * 2

        return while_loop(lambda i, v: i < 3, body, (0, x))[1]


class InPlaceInBranch(InPlace):
    def forward(self, x):
        def add(v):
            self.total.view(-1).add_(v)
            return v * 2

        return cond(x.sum() > 0, add, lambda v: v * 3, (x,))


@pytest.mark.parametrize("model", [InPlace(), InPlaceInBranch()])
def test_a_body_that_writes_to_a_buffer_is_refused_with_a_way_out(model):
    with pytest.raises(etarena.ExportError, match=r"in place .*add_.*carry it through a loop"):
        etarena.export(model, (torch.ones(3),))


class FailsInLoop(nn.Module):
    """Fails in its second round if `limit` is 1."""

    def forward(self, x, table, limit):
        def body(i, v):
            return i + 1, v + torch.index_select(table, 0, (i * limit).reshape(1))

        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, v: i < 3, body, (start, x))[1]


def test_after_a_failure_in_the_middle_of_a_loop_the_method_is_as_before():
    inputs = (torch.zeros(1), torch.tensor([3.0]), torch.tensor(0))
    method = load_exported(FailsInLoop(), inputs, {"x": None, "table": {0: DYNAMIC}, "limit": None}).method()
    for _ in range(2):
        with pytest.raises(etarena.RuntimeFailure, match="index_select"):
            method(torch.zeros(1), torch.tensor([3.0]), torch.tensor(1))
        (result,) = method(*inputs)
        assert result.tolist() == [9.0]
