"""What the demo does, step by step."""

from __future__ import annotations

import json
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ..exporter import export
from ..program import load
from .catalogue import make
from .pictures import write_pictures
from .results import DemoResult, ModelResult
from .runs import SizeResult, run_sizes, total_bytes
from .stock import planned_beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ..program import Program
    from .models import DemoModel, Size
    from .steps import Steps

__all__ = ["run_session"]

PLANNED_ONLY = {"conv_mean": ((2160, 3840),)}
"""Sizes that are planned and not run: the wheel's CPU convolution would take minutes."""


def run_session(names: Sequence[str], out: Path, steps: Steps, *, most_sizes: int | None = None) -> DemoResult:
    """Export, load, run, compare and draw the named models.

    Parameters
    ----------
    names : sequence of str
        Models and cases of the catalogue.
    out : Path
        Folder for everything that is written; it exists.
    steps : Steps
        Where progress is shown.
    most_sizes : int, optional
        Largest number of sizes that each model runs at, from the smallest.

    Returns
    -------
    DemoResult
    """
    start = time.perf_counter()
    with _silence(), planned_beside(names) as stock_plans:
        models, programs, results = [], [], []
        for name in names:
            with steps.step(f"Making {name}"):
                models.append(make(name))
        for model in models:
            with steps.step(f"Exporting {model.title}, every size unbounded"):
                program, result = _export(model, out)
            programs.append(program)
            results.append(result)
        for result in results:  # before anything is timed
            with steps.step(f"Waiting for the stock plan of {result.model.title}"):
                result.stock_bytes = next(stock_plans).planned_bytes
        for program, result in zip(programs, results, strict=True):
            result.sizes = _run_model(result.model, program, most_sizes, steps)
        answer = DemoResult(results)
        with steps.step("Drawing"):
            write_pictures(answer, out)
    answer.seconds = time.perf_counter() - start
    answer.figures = out / "figures.json"
    answer.figures.write_text(json.dumps(answer.data(), indent=1), encoding="utf-8")
    return answer


def _export(model: DemoModel, out: Path) -> tuple[Program, ModelResult]:
    start = time.perf_counter()
    exported = export(
        model.module,
        (model.input(model.example),),
        dynamic_shapes=model.dynamic_shapes(),
        partitioners=model.partitioners(),
    )
    path = out / f"{model.name}.pte"
    exported.save(path)
    return load(path), ModelResult(model, len(exported.buffer), time.perf_counter() - start, [])


def _run_model(model: DemoModel, program: Program, most_sizes: int | None, steps: Steps) -> list[SizeResult]:
    planned_only = PLANNED_ONLY.get(model.name, ())
    sizes = [size for size in model.sizes if size not in planned_only][:most_sizes]
    with steps.step(f"Running {model.title}", total=3 * len(sizes) - 2) as advance:
        results = run_sizes(model, program, sizes, advance)
    return [*results.values(), *(_plan_only(model, program, size) for size in planned_only)]


def _plan_only(model: DemoModel, program: Program, size: Size) -> SizeResult:
    example = model.input(size)
    plan = program.method("forward").plan_for([tuple(example.shape)])
    return SizeResult(model.name, size, plan, total_bytes(plan, example), plan_ns=plan.plan_ns)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the libraries' log lines, which are about their own insides, out of the progress; record no gradients."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with torch.no_grad():
            yield
    finally:
        logging.disable(level)
