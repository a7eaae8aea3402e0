"""Run every model of `bench.models` and say of each whether it runs, and how well.

    python -m bench.coverage [MODEL ...] [--write]

Each model is exported without bounds, loaded, and run at all its sizes, growing and then shrinking, the arena filled
with garbage before every run; every result is compared with eager PyTorch. A model runs in a process of its own, with
limits of time and memory, so that whatever happens to it is a row of the table. The rows are kept in out/coverage.json:
a run of some models replaces theirs, and the table has all of them.
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.models import MODELS
from bench.rows import keep_rows, measured_apart, printed
from bench.sections import table, write_sections

__all__ = ["LARGEST_ERROR", "Row", "cover", "error_of", "section"]

LARGEST_ERROR = 1e-4
"""Of a floating-point result, as the largest difference over the largest magnitude. Integers must be equal."""

KEPT = Path("out/coverage.json")
SECONDS = 900
DATA_BYTES = 12 << 30
HEADING = "## Every model"
NOTES = """\
Every model of `bench/models`, exported without bounds on its sizes, run at all its sizes, growing and then shrinking,
the arena filled with garbage before every run. `error`: largest difference from eager PyTorch over its largest
magnitude, over all runs (at most 1e-4; integers are equal). `ratio`: the worst of arena / lower bound, at any size down
to a single row, where the alignment of a few buffers shows; `excess`: the bytes above the bound there. A row is that of
the model's last run, whichever models ran beside it: rows may come from different states of the project, and those from
before `excess` was counted have none."""


@dataclass
class Row:
    """What became of one model.

    Attributes
    ----------
    name, family : str
        Of the model.
    buffers : int
        Buffers of the plan section.
    sizes : int
        Distinct sizes that ran.
    error : float
        Largest error of any run; infinite for a wrong shape, type or integer.
    ratio : float
        Largest of arena over lower bound.
    excess : int or None
        Bytes of the arena above the lower bound in that run; None in rows from before they were counted.
    export_seconds : float
        Time that the export took.
    failure : str
        Why the model does not run; empty if it does.
    """

    name: str
    family: str
    buffers: int = 0
    sizes: int = 0
    error: float = 0.0
    ratio: float = 1.0
    excess: int | None = None
    export_seconds: float = 0.0
    failure: str = ""


def cover(name: str) -> Row:
    """Export, load and run one model in this process."""
    import etarena

    row = Row(name, MODELS[name].family)
    try:
        model = MODELS[name].make()
        start = time.perf_counter()
        exported = etarena.export(model.module, model.inputs(model.example), dynamic_shapes=model.dynamic_shapes())
        row.export_seconds = time.perf_counter() - start
        row.buffers = _buffers(exported.plan())
        _run(row, model, etarena.load(exported.buffer, arena=etarena.Arena(name=name)))
    except Exception as error:
        row.failure = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    return row


def _buffers(section: Any) -> int:
    from etarena.allocator.plan import Kind

    return sum(value.kind == Kind.ACTIVATION and value.storage == at for at, value in enumerate(section.values))


def _run(row: Row, model: Any, program: Any) -> None:
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    method = program.method("forward")
    row.excess = 0
    for size in [*model.sizes, *reversed(model.sizes[:-1])]:
        inputs = model.inputs(size)
        with torch.no_grad():
            wanted = tree_leaves(model.module(*tree_map(torch.clone, inputs)))
        program.arena.scribble()
        got = method.execute(inputs)
        error = max(error_of(*pair) for pair in zip(got, wanted, strict=True))
        row.error = max(row.error, error)
        stats = method.last_run
        ratio = stats.arena_bytes / stats.lower_bound_bytes if stats.lower_bound_bytes else 1.0
        if ratio > row.ratio:
            row.ratio, row.excess = ratio, stats.arena_bytes - stats.lower_bound_bytes
        if not error <= LARGEST_ERROR:
            row.failure = f"wrong result at size {size}: error {error:.1e}"
            return
    row.sizes = len(set(model.sizes))


def error_of(got: Any, wanted: Any) -> float:
    """Largest difference of one result over its largest magnitude; infinite where that says nothing."""
    import torch

    got, wanted = torch.as_tensor(got), torch.as_tensor(wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    if not wanted.is_floating_point():
        return 0.0 if torch.equal(got, wanted) else float("inf")
    if wanted.numel() == 0:
        return 0.0
    largest = wanted.abs().max().item()
    difference = (got - wanted).abs().max().item()
    return difference / largest if 0 < largest < float("inf") and difference == difference else float("inf")


def apart(name: str) -> Row:
    """Run `cover` in another process; a crash, too much time or too much memory is a failure of the row."""
    return measured_apart(Row(name, MODELS[name].family), "bench.coverage", "--one", name, seconds=SECONDS)


def section(rows: Sequence[Row]) -> str:
    """The section of RESULTS.md."""
    heads = ("model", "family", "buffers", "sizes", "error", "ratio", "excess", "export s")
    ran = [row for row in rows if not row.failure]
    families = {row.family for row in rows}
    count = f"{len(ran)} of {len(rows)} models of {len(families)} families run."
    parts = [HEADING, NOTES, "```\npython -m bench.coverage --write\n```", table(("", ""), describe()), count]
    parts.append(table(heads, [_cells(row) for row in ran]))
    return "\n\n".join([*parts, *_failures(rows)])


def _cells(row: Row) -> tuple[str, ...]:
    figures = (
        str(row.buffers),
        str(row.sizes),
        f"{row.error:.1e}",
        f"{row.ratio:.4f}",
        "" if row.excess is None else str(row.excess),
        f"{row.export_seconds:.1f}",
    )
    return (row.name, row.family, *figures)


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    failed = [row for row in rows if row.failure]
    if failed:
        yield "These do not run:"
        yield table(("model", "family", "why"), [(row.name, row.family, _plain(row.failure)) for row in failed])


def _plain(text: str, most: int = 200) -> str:
    """`text` as it can stand in a cell of a table."""
    text = text.replace("|", "/")
    return text if len(text) <= most else f"{text[:most]} ..."


def keep(rows: Sequence[Row], path: Path = KEPT) -> list[Row]:
    """Replace the rows of these models in a file, and return the rows of all models that are in it, in their order."""
    return keep_rows(rows, path, Row, lambda row: row.name, MODELS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
        print(printed(cover(arguments.one)))
        return
    unknown = sorted(set(arguments.models) - set(MODELS))
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    rows = []
    for name in arguments.models or MODELS:
        rows.append(apart(name))
        known = keep(rows)
        print(" | ".join((*_cells(rows[-1]), rows[-1].failure)), flush=True)
    if arguments.write:
        write_sections(section(known))
    sys.exit(any(row.failure for row in rows))


if __name__ == "__main__":
    main()
