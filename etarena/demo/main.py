"""The demo: real models at many sizes from one arena, compared with eager PyTorch and with stock ExecuTorch."""

from __future__ import annotations

import json
import logging
import os
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
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress

    from ..program import Program
    from .models import DemoModel, Size

__all__ = ["run"]

FULL = ("mobilenet_v2", "segformer", "bert", "llama", "embedding_linear", "conv_mean")
QUICK = ("bert", "llama", "embedding_linear", "conv_mean")
PLANNED_ONLY = {"conv_mean": ((2160, 3840),)}
"""Sizes that are planned and not run: the wheel's CPU convolution would take minutes."""
QUICK_SIZES = 5


def run(out: Path, quick: bool = False, console: Console | None = None) -> DemoResult:
    """Export, load, run, compare and draw all models.

    Parameters
    ----------
    out : Path
        Folder for the memory map (``memory_map.png``), the page (``index.html``) and the figures (``figures.json``);
        made if it is not there.
    quick : bool, default False
        Only the models that export in seconds, at their smaller sizes.
    console : rich.console.Console, optional
        Where progress is shown; by default standard error.

    Returns
    -------
    DemoResult
        Its `failures` name every error above 1e-4 and every arena above 1.03 x its lower bound.

    Raises
    ------
    Error
        If an export fails, or a package of the extra ``etarena[demo]`` is missing.
    """
    from rich.console import Console as RichConsole

    start = time.perf_counter()
    names = QUICK if quick else FULL
    out.mkdir(parents=True, exist_ok=True)
    with _silence(), planned_beside(names) as stock_plans, _progress(console or RichConsole(stderr=True)) as progress:
        models, programs, results = [], [], []
        for name in names:
            with _task(progress, f"Making {name}"):
                models.append(make(name))
        for model in models:
            with _task(progress, f"Exporting {model.title}, every size unbounded"):
                program, result = _export(model, out)
            programs.append(program)
            results.append(result)
        for result in results:  # before anything is timed
            with _task(progress, f"Planning {result.model.title} with stock ExecuTorch"):
                result.stock_bytes = next(stock_plans).planned_bytes
        for program, result in zip(programs, results, strict=True):
            result.sizes = _run_model(result.model, program, quick, progress)
        with _task(progress, "Drawing"):
            answer = DemoResult(results, time.perf_counter() - start)
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


def _run_model(model: DemoModel, program: Program, quick: bool, progress: Progress) -> list[SizeResult]:
    planned_only = PLANNED_ONLY.get(model.name, ())
    sizes = [size for size in model.sizes if size not in planned_only]
    if quick:
        sizes = sizes[:QUICK_SIZES]
    task = progress.add_task(f"Running {model.title}", total=3 * len(sizes) - 2)
    results = run_sizes(model, program, sizes, lambda: progress.advance(task))
    return [*results.values(), *(_plan_only(model, program, size) for size in planned_only)]


def _plan_only(model: DemoModel, program: Program, size: Size) -> SizeResult:
    example = model.input(size)
    plan = program.method("forward").plan_for([tuple(example.shape)])
    return SizeResult(model.name, size, plan, total_bytes(plan, example), plan_ns=plan.plan_ns)


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()]
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        yield progress


@contextmanager
def _task(progress: Progress, description: str) -> Iterator[None]:
    task = progress.add_task(description, total=1)
    yield
    progress.advance(task)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep `transformers` from logging, and the C++ of ExecuTorch from writing over the progress bars."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with torch.no_grad():
            yield
    finally:
        logging.disable(level)
