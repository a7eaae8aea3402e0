"""One loaded program at many sizes: what a run gives and costs, compared with eager PyTorch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..memory_plan import MemoryPlan
    from ..program import Program
    from .models import DemoModel, Size

__all__ = ["SizeResult", "relative_error", "run_sizes", "there_and_back", "total_bytes"]


@dataclass
class SizeResult:
    """What was measured at one size of one model.

    Attributes
    ----------
    model, size
        Name of the model; (height, width) or (tokens,).
    plan
        The memory plan at this size.
    total_bytes
        Arena, inputs, results and state together: what compares with another runtime's reservation.
    error
        Largest difference from eager PyTorch over all runs, divided by eager's largest magnitude; None if not run.
    plan_ns
        Time of the run's planning when the size was new, in nanoseconds.
    run_seconds
        Duration of each run.
    """

    model: str
    size: Size
    plan: MemoryPlan
    total_bytes: int
    error: float | None = None
    plan_ns: int = 0
    run_seconds: list[float] = field(default_factory=list)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the largest scratch of a delegate's call; stock's XNNPACK shares one workspace of that size."""
        return self.plan.scratch_bytes

    @property
    def seconds(self) -> float | None:
        """Median duration of a run; None if there was none."""
        return median(self.run_seconds) if self.run_seconds else None


def relative_error(got: Tensor, wanted: Tensor) -> float:
    """Largest absolute difference over the largest magnitude of `wanted`; infinite for another shape or a NaN."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    difference = (got - wanted).abs().max().item()
    return difference / wanted.abs().max().item() if difference == difference else float("inf")


def there_and_back(sizes: Sequence[Size]) -> list[Size]:
    """The sizes growing, shrinking, and growing again."""
    return [*sizes, *reversed(sizes[:-1]), *sizes[1:]]


def total_bytes(plan: MemoryPlan, example: Tensor) -> int:
    """Bytes of a run: arena, results, state, and the input."""
    return plan.peak + plan.output_bytes + plan.state_bytes + example.nbytes


def run_sizes(
    model: DemoModel, program: Program, sizes: Sequence[Size], advance: Callable[[], None] = lambda: None
) -> dict[Size, SizeResult]:
    """Run a loaded model at every size, growing, shrinking and growing again.

    Before every run the arena's unused memory and its activations are filled with garbage. The result of the run before
    is held meanwhile and compared once more afterwards: results must stay what they were.

    Parameters
    ----------
    model : DemoModel
        The model, for its inputs and for eager PyTorch's answers.
    program : Program
        The same model, exported by etarena and loaded.
    sizes : sequence of Size
        Growing.
    advance : callable
        Called after every run.
    """
    method = program.method("forward")
    inputs = {size: model.input(size) for size in sizes}
    with torch.no_grad():
        wanted = {size: model.module(inputs[size]) for size in sizes}
    results: dict[Size, SizeResult] = {}
    held: tuple[Size, Tensor] | None = None
    for size in there_and_back(sizes):
        program.arena.scribble()
        start = time.perf_counter()
        output: Tensor = method.execute([inputs[size]])[0]
        seconds = time.perf_counter() - start
        if size not in results:
            plan = method.plan_for([tuple(inputs[size].shape)])
            results[size] = SizeResult(model.name, size, plan, total_bytes(plan, inputs[size]), 0.0)
            stats = method.last_run
            results[size].plan_ns = stats.plan_ns if stats else 0
        results[size].run_seconds.append(seconds)
        for compared, tensor in ((size, output), *([held] if held else [])):
            results[compared].error = max(results[compared].error or 0.0, relative_error(tensor, wanted[compared]))
        held = (size, output)
        advance()
    return results
