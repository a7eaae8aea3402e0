"""ETensors: what making one of somebody else's memory and handing it back costs, and what one as an input costs."""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

import etarena
from bench.side_by_side import in_turn
from etarena import ETensor

CALLS = 1000  # timed together: one alone is shorter than the clock's own cost
ROUNDS = 200
INPUTS = 9


class Last(nn.Module):
    """Takes many inputs and computes with one."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return inputs[-1] + 1


def repeated(call: Callable[[], object], count: int = CALLS) -> Callable[[], None]:
    turns = range(count)

    def calls() -> None:
        for _ in turns:
            call()

    return calls


def test_etensor_interop(benchmark: Any) -> None:
    tensor, array = torch.randn(3, 4), np.zeros((3, 4), dtype=np.float32)
    made = ETensor(tensor)
    steps: dict[str, Callable[[], object]] = {
        "an empty call": lambda: None,
        "torch to ETensor": lambda: ETensor(tensor),
        "ETensor to torch": lambda: made.torch(),
        "NumPy to ETensor": lambda: ETensor(array),
        "ETensor to NumPy": lambda: made.numpy(),
        "DLPack to ETensor": lambda: ETensor.from_dlpack(array),
        "ETensor to DLPack": lambda: made.__dlpack__(max_version=(1, 0)),
    }
    with etarena.record_copies() as ledger:
        assert ETensor(tensor).torch().data_ptr() == tensor.data_ptr()
        assert ETensor(array).numpy().ctypes.data == ETensor.from_dlpack(array).address == array.ctypes.data
    rounds = 1 if benchmark.disabled else ROUNDS
    samples = in_turn({name: repeated(call) for name, call in steps.items()}, rounds)
    medians = {name: median(times) / CALLS for name, times in samples.items()}
    benchmark.extra_info.update(ns=medians, copied=sum(entry.nbytes for entry in ledger))
    benchmark.pedantic(steps["torch to ETensor"], rounds=rounds)


def test_etensor_input(benchmark: Any) -> None:
    methods = {
        count: etarena.load(etarena.export(Last(), (torch.ones(4),) * count).buffer).method() for count in (1, INPUTS)
    }
    inputs = {"ETensor": ETensor(torch.ones(4)), "torch.Tensor": torch.ones(4)}
    ways = {
        (kind, count): repeated(lambda method=method, values=[value] * count: method.execute(values), 100)
        for kind, value in inputs.items()
        for count, method in methods.items()
    }
    rounds = 1 if benchmark.disabled else ROUNDS
    samples = in_turn(ways, rounds)  # type: ignore[arg-type, type-var]  # pairs as names
    extra = {
        kind: median(
            (many - one) / 100 / (INPUTS - 1)
            for one, many in zip(samples[kind, 1], samples[kind, INPUTS], strict=True)  # type: ignore[index]  # as above
        )
        for kind in inputs
    }
    benchmark.extra_info.update(ns_an_input=extra)
    benchmark.pedantic(ways["ETensor", 1], rounds=min(rounds, 20))
