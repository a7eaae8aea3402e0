"""What goes wrong in the middle of a run of stages, and that the method works afterwards; damaged discoveries."""

import copy

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena
from etarena.allocator import plan
from etarena.allocator.plan import Teller

from ..helpers.oracle import load_exported

ANY = Dim.DYNAMIC


class Promised(nn.Module):
    """At most three elements are selected, says the model; a counter is raised by every call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        chosen = x[x > 0]
        torch._check(chosen.shape[0] <= 3)
        self.calls.add_(1)
        return chosen * 2, self.calls + 0


def test_more_than_was_promised_is_refused_and_changes_no_state():
    method = load_exported(Promised(), (torch.tensor([1.0, -1.0]),), ({0: ANY},)).method()
    assert method.execute([torch.tensor([1.0, -1.0, 2.0])])[1].tolist() == [1.0]
    for _ in range(2):
        with pytest.raises(etarena.ShapeError, match=r"aten::index gives u\d+ = 4, but it must be at most 3"):
            method.execute([torch.ones(4)])
    chosen, calls = method.execute([torch.tensor([5.0])])
    assert (chosen.tolist(), calls.tolist()) == ([10.0], [2.0])


class Zeros(nn.Module):
    def forward(self, n):
        return torch.zeros(n.item()) + 1


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (-1, etarena.ShapeError, r"= -1, but it must be at least 0"),
        (2**40, etarena.SizeOverflowError, r"would have shape \[1099511627776\]"),
        (2**31 - 1, etarena.ArenaFullError, r"activation|heap"),
    ],
)
def test_a_number_that_is_no_size_is_refused(number, error, message):
    exported = etarena.export(Zeros(), (torch.tensor(3),))
    method = etarena.load(exported.buffer, etarena.Arena(1 << 30)).method()
    for _ in range(2):
        with pytest.raises(error, match=message):
            method.execute([torch.tensor(number)])
        assert method.execute([torch.tensor(2)])[0].tolist() == [1.0, 1.0]


class FailsInTheMiddle(nn.Module):
    """The second lookup fails when an index is too large, after the first stage has begun."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, table):
        index = torch.nonzero(x)[:, 0]
        self.calls.add_(1)
        return table.index_select(0, index).exp(), self.calls + 0


def test_a_kernel_that_fails_between_stops_leaves_state_and_method_as_they_were():
    example = (torch.tensor([1, 0, 1]), torch.randn(4))
    method = load_exported(FailsInTheMiddle(), example, ({0: ANY}, {0: ANY})).method()
    method.execute(list(example))
    for _ in range(2):
        with pytest.raises(etarena.RuntimeFailure, match="index_select"):
            method.execute([torch.ones(9, dtype=torch.int64), torch.randn(4)])
    result, calls = method.execute(list(example))
    torch.testing.assert_close(result, example[1][[0, 2]].exp())
    assert calls.tolist() == [2.0]


class Select(nn.Module):
    def forward(self, x):
        return x[x > 0] * 2


def test_the_callers_tensor_takes_a_result_of_told_size():
    method = load_exported(Select(), (torch.randn(4),), ({0: ANY},)).method()
    x, out = torch.tensor([1.0, -1.0, 3.0]), torch.empty(2)
    (result,) = method.execute([x], outputs=[out])
    assert result is out
    assert out.tolist() == [2.0, 6.0]
    assert method.last_run.bytes_copied == 0
    with pytest.raises(etarena.InputError, match=r"has shape \[2\], the output has \[3\]"):
        method.execute([torch.ones(3)], outputs=[out])
    assert method.execute([x], outputs=[out])[0].tolist() == [2.0, 6.0]


def section():
    return etarena.export(Select(), (torch.randn(4),), dynamic_shapes=({0: ANY},)).plan()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("symbol", 9, "symbol"),
        ("symbol", 0, "already"),
        ("instruction", 99, "instruction"),
        ("value", 99, "value"),
        ("scale", 0, "scale"),
        ("teller", Teller.SCALAR, "value"),
    ],
)
def test_a_bad_discovery_is_refused_by_name(field, value, message):
    method = copy.deepcopy(section())
    setattr(method.discoveries[0], field, value)
    with pytest.raises(etarena.PlanError, match=rf"discoveries\[0\].*{message}"):
        plan.encode(method)


def test_no_stage_without_a_name():
    method = load_exported(Select(), (torch.randn(4),), ({0: ANY},)).method()
    (symbol,) = [method.section.symbols[entry.symbol].name for entry in method.section.discoveries]
    known = method.plan_for([(1000,)])
    whole = method.plan_for([(1000,)], told={symbol: 1000})
    assert known.peak < whole.peak
    assert whole.lower_bound == 1000 + 4000  # the mask and what it selects; the result is in the heap
    with pytest.raises(etarena.InputError, match="no symbol 'nobody'"):
        method.plan_for([(5,)], told={"nobody": 1})
    with pytest.raises(etarena.InputTypeError, match="must be an int"):
        method.plan_for([(5,)], told={symbol: 1.5})
    with pytest.raises(etarena.ShapeError, match="at least 0"):
        method.plan_for([(5,)], told={symbol: -1})
