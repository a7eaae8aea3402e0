"""``etarena run``: one method, with inputs from files or random ones."""

import statistics
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..report.units import bytes_text
from .command import Answer, Command, step
from .inputs import make_inputs
from .units import SHAPE, shape_text, time_text


@click.command(cls=Command)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--method", "name", default=None, help="The method to run (default: the first).")
@click.option("--shape", "shapes", type=SHAPE, multiple=True, help="Shape of each random tensor input in turn.")
@click.option(
    "--input",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .npy file for each tensor input in turn; inputs left over are random.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--int-limit", default=2, show_default=True, help="Random integer inputs stay below this number.")
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(min=1), help="Number of runs.")
@click.option(
    "--save-outputs", "folder", type=click.Path(file_okay=False, path_type=Path), help="Folder for output_0.npy, ..."
)
def run(
    model: Path,
    name: str | None,
    shapes: tuple[tuple[int, ...], ...],
    files: tuple[Path, ...],
    seed: int,
    int_limit: int,
    repeat: int,
    folder: Path | None,
) -> Answer:
    """Run MODEL and report its outputs, memory and time."""
    import etarena

    with step(f"Loading {model}"):
        program = etarena.load(model)
        name = name or program.method_names[0]
        method = program.method(name)
    inputs = make_inputs(method.section, files, shapes, seed, int_limit)
    with step(f"Running {name}" + (f" {repeat} times" if repeat > 1 else "")):
        outputs, nanoseconds, stats = _time_runs(method, inputs, repeat)
    data: dict[str, Any] = {
        "path": str(model),
        "method": name,
        "inputs": [_summary(value) for value in inputs],
        "outputs": [_summary(value) for value in outputs],
        "memory": _memory(stats[-1]),
        "plan_ns": stats[0].plan_ns,
        "run_ns": {
            "first": nanoseconds[0],
            "median": round(statistics.median(nanoseconds)),
            "min": min(nanoseconds),
            "runs": repeat,
        },
    }
    if folder is not None:
        data["saved"] = _save(outputs, folder)
    return Answer(data, lambda console: _show(console, data))


def _time_runs(method: Any, inputs: list[Any], repeat: int) -> tuple[list[Any], list[int], list[Any]]:
    """Run `repeat` times; return the last outputs, and the nanoseconds and the figures of each run."""
    outputs: list[Any] = []
    nanoseconds, stats = [], []
    for _ in range(repeat):
        started = time.perf_counter_ns()
        outputs = method.execute(inputs)
        nanoseconds.append(time.perf_counter_ns() - started)
        stats.append(method.last_run)
    return outputs, nanoseconds, stats


def _memory(stats: Any) -> dict[str, Any]:
    return {
        "arena_bytes": stats.arena_bytes,
        "lower_bound_bytes": stats.lower_bound_bytes,
        "output_bytes": stats.output_bytes,
        "state_bytes": stats.state_bytes,
        "delegate_scratch_bytes": stats.delegate_scratch_bytes,
        "scratch_outside_arena": list(stats.scratch_outside_arena),
        "bytes_copied": stats.bytes_copied,
        "copies": [{"cause": copy.cause, "nbytes": copy.nbytes} for copy in stats.copies],
    }


def _summary(value: Any) -> dict[str, Any]:
    """Describe a tensor by dtype, shape and range of its finite values; anything else by itself."""
    import torch

    if not isinstance(value, torch.Tensor):
        return {"kind": type(value).__name__, "value": value}
    data: dict[str, Any] = {
        "kind": "tensor",
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
    }
    if value.is_complex():
        return data
    exact = value.double()
    finite = exact[exact.isfinite()]
    data["not_finite"] = exact.numel() - finite.numel()
    if finite.numel():
        data |= {"min": finite.min().item(), "mean": finite.mean().item(), "max": finite.max().item()}
    return data


def _save(outputs: list[Any], folder: Path) -> list[str]:
    import numpy as np
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for position, value in enumerate(outputs):
        path = folder / f"output_{position}.npy"
        # NumPy has no bfloat16; float32 holds every value of it.
        array = value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16 else value
        np.save(path, np.asarray(array))
        paths.append(str(path))
    return paths


def _show(console: Console, data: dict[str, Any]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for role in ("inputs", "outputs"):
        for position, item in enumerate(data[role]):
            table.add_row(f"{role[:-1]} {position}", *map(escape, _summary_texts(item)))
    console.print(table)
    memory, times = data["memory"], data["run_ns"]
    bound = memory["lower_bound_bytes"]
    ratio = f", {memory['arena_bytes'] / bound:.3f} x the lower bound of {bytes_text(bound)}" if bound else ""
    console.print(f"arena    {bytes_text(memory['arena_bytes'])}{ratio}")
    outside = ", ".join(memory["scratch_outside_arena"])
    console.print(
        f"beside   {bytes_text(memory['output_bytes'])} of outputs, {bytes_text(memory['state_bytes'])} of state"
        + (f", scratch memory of {outside}" if outside else ""),
        markup=False,
    )
    for copy in memory["copies"]:
        console.print(f"copied   {bytes_text(copy['nbytes'])}: {copy['cause']}", markup=False)
    again = f", median of {times['runs']} runs {time_text(times['median'])}" if times["runs"] > 1 else ""
    console.print(f"time     {time_text(times['first'])}, {time_text(data['plan_ns'])} of it planning{again}")
    for path in data.get("saved", ()):
        console.print(f"saved    {path}", markup=False)


def _summary_texts(item: dict[str, Any]) -> tuple[str, str]:
    if item["kind"] != "tensor":
        return item["kind"], str(item["value"])
    values = f"min {item['min']:.4g}, mean {item['mean']:.4g}, max {item['max']:.4g}" if "mean" in item else ""
    if item.get("not_finite"):
        values += f"  {item['not_finite']} not finite"
    return f"{item['dtype']} {shape_text(item['shape'])}", values.strip()
