"""What calling a delegate costs beside what it does: delegates in Python and in C that do nothing."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import pytest
import torch

import etarena
from bench.side_by_side import in_turn
from etarena.quiet import quiet
from examples.python_delegate import NumpySoftmax, NumpySoftmaxPartitioner
from tests.helpers.function_tables import CLOSE, EXECUTE, INIT, Table

BACKEND = NumpySoftmax.__name__
CALLS = 64
LEAST_ROUNDS = 2


class Chain(torch.nn.Module):
    """Operators of the CPU one after another, with an operator for the delegate behind each of them if asked."""

    def __init__(self, *, with_delegates: bool) -> None:
        super().__init__()
        self.with_delegates = with_delegates

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(CALLS):
            x = torch.relu(x)
            if self.with_delegates:
                x = torch.softmax(x, -1)
        return x


class Idle(etarena.Delegate):
    """Does nothing."""

    def execute(self, args: Any, scratch: memoryview) -> None:
        pass


class IdleWithScratch(Idle):
    """Does nothing with scratch."""

    def scratch_bytes(self, shapes: Any) -> int:
        return 1024


def idle_table() -> Table:
    """A table in C that does nothing: its functions are `abs` of the C library, which gives 0 (success) for null."""
    nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    made = Table(ctypes.sizeof(Table), 1, None)
    made.init, made.execute, made.close = INIT(nothing), EXECUTE(nothing), CLOSE(nothing)
    return made


@contextmanager
def registered(what: Any) -> Iterator[None]:
    etarena.register_delegate(BACKEND, what)
    try:
        yield
    finally:
        etarena.unregister_delegate(BACKEND)


@pytest.mark.parametrize("kind", ["Python", "Python with scratch", "C"])
def test_delegate_call(benchmark: Any, kind: str) -> None:
    """A chain of operators with and without a delegate behind each: the difference, for each delegate."""
    methods = []
    with registered({"Python": Idle, "Python with scratch": IdleWithScratch, "C": idle_table()}[kind]):
        for with_delegates in (False, True):
            with quiet():
                model = Chain(with_delegates=with_delegates)
                exported = etarena.export(model, (torch.ones(4),), partitioners=[NumpySoftmaxPartitioner()])
            methods.append(etarena.load(exported.buffer, etarena.Arena(name=str(with_delegates))).method())
    bare, delegated = methods
    assert len(delegated.section.delegates) == CALLS
    x = [torch.ones(4)]
    ways = {"without": lambda: bare.execute(x), "with": lambda: delegated.execute(x)}
    rounds = LEAST_ROUNDS if benchmark.disabled else 3000
    samples = in_turn(ways, rounds)
    cost = [(two - one) / CALLS for one, two in zip(samples["without"], samples["with"], strict=True)]
    benchmark.extra_info.update(kind=kind, calls=CALLS, rounds=rounds, cost_us=median(cost) / 1e3)
    benchmark(ways["with"])
