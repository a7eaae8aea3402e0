"""What a stage costs: a method of about 300 instructions with and without a stop in the middle.

``python -m bench.test_stages`` prints the time of a call for both; the difference, less the planning that `last_run`
reports for new numbers, is what stopping and going on costs.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.export import Dim

import etarena

DEPTH = 140
REPEATS = 400


class Chain(nn.Module):
    """Small steps before and after the place where a selection may tell a size."""

    def __init__(self, is_told: bool) -> None:
        super().__init__()
        self.is_told = is_told

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Halve and shift many times, keep the positive elements, go on."""
        for _ in range(DEPTH // 2):
            x = (x * 0.5) + 1
        mask = x > 0
        x = x[mask] if self.is_told else x * mask
        for _ in range(DEPTH // 2):
            x = (x * 0.5) + 1
        return x


def method_of(is_told: bool) -> etarena.Method:
    """The loaded method."""
    exported = etarena.export(Chain(is_told), (torch.randn(8),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    return etarena.load(exported.buffer).method()


def call_us(method: etarena.Method, inputs: Callable[[int], torch.Tensor]) -> tuple[float, float]:
    """Median microseconds of a call, and of the planning inside."""
    calls, plans = [], []
    for i in range(REPEATS):
        x = inputs(i)
        begin = time.perf_counter_ns()
        method.execute([x])
        calls.append((time.perf_counter_ns() - begin) / 1e3)
        plans.append(method.last_run.plan_ns / 1e3)
    return statistics.median(calls), statistics.median(plans)


def main() -> None:
    """Print the figures."""
    plain, told = method_of(False), method_of(True)
    ones = torch.ones(8)
    call_us(plain, lambda _: ones), call_us(told, lambda _: ones)
    base, _ = call_us(plain, lambda _: ones)
    same, _ = call_us(told, lambda _: ones)
    print(f"{len(told.section.labels)} instructions; {told.last_run.stages} stages")
    print(f"no stop {base:.1f} us, stop with a known plan {same:.1f} us: a stage costs {same - base:.1f} us")
    fresh = [torch.cat([torch.ones(i % 997), -1e30 * torch.ones(1000 - i % 997)]) for i in range(REPEATS)]
    new, planning = call_us(told, lambda i: fresh[i])
    again, _ = call_us(told, lambda i: fresh[i])
    print(f"new numbers {new:.1f} us, of it planning {planning:.1f} us; the same numbers again {again:.1f} us")
    print(f"beyond planning, a stage with new numbers costs {new - planning - again + same - base:.1f} us")


if __name__ == "__main__":
    main()
