"""What a stage costs: a method of about 300 instructions with and without a stop in the middle.

``python -m bench.stages [--write]`` gives the time of a call for both; the difference, less the planning that
`last_run` reports for new numbers, is what stopping and going on costs. With ``--write`` it goes into RESULTS.md.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.export import Dim

import etarena

from .machine import describe
from .sections import table, write_sections

__all__ = ["Figures", "measure", "section"]

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


def method_of(is_told: bool) -> Any:
    """The loaded method."""
    exported = etarena.export(Chain(is_told), (torch.randn(8),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    return etarena.load(exported.buffer).method()


def call_us(method: Any, inputs: Callable[[int], torch.Tensor], repeats: int) -> tuple[float, float]:
    """Median microseconds of a call, and of the planning inside."""
    calls, plans = [], []
    for i in range(repeats):
        x = inputs(i)
        begin = time.perf_counter_ns()
        method.execute([x])
        calls.append((time.perf_counter_ns() - begin) / 1e3)
        plans.append(method.last_run.plan_ns / 1e3)
    return statistics.median(calls), statistics.median(plans)


class Figures(NamedTuple):
    """Medians in microseconds of a call: without a stop, with a known plan, with new numbers, with those once more."""

    instructions: int
    stages: int
    plain: float
    known: float
    fresh: float
    planning: float
    again: float

    @property
    def stage(self) -> float:
        """What a stage costs whose plan is known."""
        return self.known - self.plain

    @property
    def fresh_stage(self) -> float:
        """What a stage with new numbers costs beyond their planning."""
        return self.fresh - self.planning - self.again + self.stage


def measure(repeats: int = REPEATS) -> Figures:
    """Time both methods, warm."""
    plain, told = method_of(False), method_of(True)
    ones = torch.ones(8)
    for method in (plain, told):
        call_us(method, lambda _: ones, repeats)
    base, _ = call_us(plain, lambda _: ones, repeats)
    known, _ = call_us(told, lambda _: ones, repeats)
    fresh = [torch.cat([torch.ones(i % 997), -1e30 * torch.ones(1000 - i % 997)]) for i in range(repeats)]
    new, planning = call_us(told, lambda i: fresh[i], repeats)
    again, _ = call_us(told, lambda i: fresh[i], repeats)
    return Figures(len(told.section.labels), told.last_run.stages, base, known, new, planning, again)


def section(figures: Figures) -> str:
    """The section of RESULTS.md."""
    text = (
        f"A method of {figures.instructions} instructions in which a selection tells a size half-way ({figures.stages} "
        f"stages), beside\nthe same without one; medians over {REPEATS} calls. A stage whose plan is known costs "
        f"{figures.stage:.1f} us\n({figures.known:.1f} us a call against {figures.plain:.1f}); one with new numbers "
        f"{figures.fresh_stage:.1f} us beyond the {figures.planning:.1f} us of its\nplanning (target: at most 20 us)."
    )
    command = "```\npython -m bench.stages --write\n```"
    return "\n\n".join(("## Stages", text, command, table(("", ""), describe())))


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    arguments = parser.parse_args()
    text = section(measure())
    print(text)
    if arguments.write:
        write_sections(text + "\n")


if __name__ == "__main__":
    main()
