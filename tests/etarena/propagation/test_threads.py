"""Propagations and exports in several threads: torch is the whole process's, and is as before afterwards."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import etarena

WAIT = 20


class Calling(nn.Module):
    def __init__(self, called: Callable[[], object]) -> None:
        super().__init__()
        self.called = called

    def forward(self, x: Tensor) -> Tensor:
        self.called()
        return x.to(torch.float64) + 1


def propagate(called: Callable[[], object]) -> None:
    etarena.propagate(Calling(called), (torch.zeros(2),), dynamic_shapes={"x": {0: "n"}})


def export(called: Callable[[], object]) -> None:
    dims = {"x": {0: torch.export.Dim("n")}}
    etarena.export(Calling(called), (torch.zeros(2),), dynamic_shapes=dims)


@pytest.mark.parametrize(("one", "other"), [(propagate, propagate), (propagate, export), (export, propagate)])
def test_torch_is_as_before(one: Callable[..., None], other: Callable[..., None]) -> None:
    """The first ends while the second is at it, if that could begin before."""
    before = torch.Tensor.to, torch.Tensor.cuda, ShapeEnv.evaluate_expr
    inside, second_inside, first_over = (threading.Event() for _ in range(3))
    failures: list[BaseException] = []

    def second() -> None:
        inside.wait(WAIT)
        try:
            other(lambda: (second_inside.set(), first_over.wait(WAIT)))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    one(lambda: (inside.set(), second_inside.wait(0.3)))
    first_over.set()
    thread.join(WAIT)
    assert not failures
    assert second_inside.is_set()
    assert (torch.Tensor.to, torch.Tensor.cuda, ShapeEnv.evaluate_expr) == before


def test_other_threads_see_nothing_of_a_propagation() -> None:
    found: list[str] = []

    def elsewhere() -> None:
        try:
            torch.zeros(2).to("xpu")  # a propagation has such a device, this torch has none
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        found.append(str(torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.zeros(2),)).tolist()))
        nn.Linear(2, 2)(torch.zeros(1, 2))

    def beside() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(WAIT)

    beside()
    before, found[:] = [*found], []
    values = etarena.propagate(Calling(beside), (torch.zeros(2),)).values
    assert found == before
    assert [value.op for value in values if value.op] == ["aten._to_copy.default", "aten.add.Tensor"]
