"""``etarena replay``: an allocation trace, or lifetimes of a model, on a heap."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ..allocator.gate import require_run_time
from ..report.units import bytes_text
from .command import Answer, Command, step
from .units import time_text


@click.command(cls=Command)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--allocator",
    "names",
    multiple=True,
    type=click.Choice(["etarena", "reference"]),
    help="Which heap to replay on; may be repeated (default: etarena).",
)
def replay(trace: Path, names: tuple[str, ...]) -> Answer:
    """Replay TRACE: an allocation trace as etarena.allocator.replay saves it, or a .csv of lifetimes.

    A .csv has the columns id,lower,upper,size; each buffer is allocated at its lower position and freed at its upper.
    """
    require_run_time("etarena replay")
    from ..allocator import replay as traces

    if not trace.is_file():
        raise click.UsageError(f"there is no file {trace}")
    steps = _lifetimes(trace) if trace.suffix == ".csv" else _steps(trace)
    results = []
    for name in names or ("etarena",):
        with step(f"Replaying on {name}"):
            results.append(traces.replay(steps, name))
    data: dict[str, Any] = {
        "path": str(trace),
        "steps": len(steps),
        "replays": [
            {
                "allocator": result.allocator,
                "peak_live_bytes": result.peak_live,
                "extent_bytes": result.extent,
                "footprint": result.footprint,
                "ns_per_pair": result.nanoseconds_per_pair,
            }
            for result in results
        ],
    }
    return Answer(data, lambda console: _show(console, data))


def _steps(path: Path) -> list[Any]:
    from ..allocator import replay as traces

    try:
        return traces.load(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _lifetimes(path: Path) -> list[Any]:
    import csv

    from ..allocator import replay as traces

    try:
        with path.open(newline="") as file:
            rows = [[int(row[key]) for key in ("size", "lower", "upper")] for row in csv.DictReader(file)]
    except (KeyError, TypeError, ValueError) as error:
        raise click.UsageError(f"{path} is no list of lifetimes with columns id,lower,upper,size: {error!r}") from error
    return traces.from_lifetimes(*zip(*rows, strict=True)) if rows else []


def _show(console: Console, data: dict[str, Any]) -> None:
    table = Table("allocator", "peak of live bytes", "extent", "extent / peak", "per alloc + free", box=None)
    for entry in data["replays"]:
        table.add_row(
            entry["allocator"],
            bytes_text(entry["peak_live_bytes"]),
            bytes_text(entry["extent_bytes"]),
            f"{entry['footprint']:.3f}",
            time_text(entry["ns_per_pair"]),
        )
    console.print(table)
    console.print("Times include the overhead of calls from Python.")
