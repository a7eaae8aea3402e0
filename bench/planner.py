"""How tight plans are and how long they take: at run time, within a budget, and at export; peers beside them.

``python -m bench.planner [FOLDER] [--budget-ms 50] [--minimalloc PROGRAM] [--write]`` reads the lists of
buffers in FOLDER (``tests/data`` by default: real models, and hard instances whose names end in their capacity). Times
of one process on one core: processor time where searches are compared, because the clock shows other programs too.
"""

import argparse
import csv
import re
import resource
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.machine import describe
from bench.sections import table, write_sections
from etarena.allocator import OffsetPlanner, Plan, plan_exact, plan_offsets, verify

__all__ = ["Problem", "main", "read_problems"]

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
REPEATS = 200
NOTES = """\
`bound` is the largest sum of the bytes live at one position: no plan is smaller. Real models: the first plan at run
time (from Python, lists in and out), and the plan made at export. Hard instances: the first plan, the best within a
budget (both with buffers aligned to 64 bytes as at run time), and the processor time until the instance fits its
capacity (alignment 1), ours and minimalloc's in the same run."""
Buffers = tuple[list[int], list[int], list[int]]


@dataclass(frozen=True)
class Problem:
    """A list of buffers; `capacity` if it is one of the hard instances."""

    name: str
    buffers: Buffers
    capacity: int | None


def read_problems(folder: Path) -> list[Problem]:
    """All CSV files below a folder, by name; the header is ``id,lower,upper,size`` in any order of columns."""
    problems = []
    for path in sorted(folder.rglob("*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        sizes, first, last = ([int(row[column]) for row in rows] for column in ("size", "lower", "upper"))
        ending = re.fullmatch(r".*\.(\d{6,})", path.stem)
        problems.append(Problem(path.stem, (sizes, first, last), int(ending.group(1)) if ending else None))
    return problems


def seconds(action: Callable[[], Plan], repeats: int) -> tuple[Plan, float]:
    """The plan, and the median of the time it took."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        plan = action()
        times.append(time.perf_counter() - begin)
    return plan, statistics.median(times)


def model_row(problem: Problem) -> list[str]:
    """First plan at run time, and the plan of export."""
    planner = OffsetPlanner()

    def first_plan() -> Plan:
        planner.find([1], [0], [1])  # so that nothing is known of the lifetimes
        return planner.find(*problem.buffers)

    plan, first = seconds(first_plan, REPEATS)
    begin = time.perf_counter()
    exported = plan_offsets(*problem.buffers, effort="export")
    export = time.perf_counter() - begin
    verify(plan, *problem.buffers)
    verify(exported, *problem.buffers)
    n = len(problem.buffers[0])
    return [
        problem.name,
        str(n),
        f"{plan.peak / plan.lower_bound:.4f}",
        f"{first * 1e6:.0f}",
        f"{first * 1e6 / n:.2f}",
        f"{exported.peak / exported.lower_bound:.4f}",
        f"{export * 1e3:.2f}",
    ]


def processor_seconds(action: Callable[[], Plan]) -> tuple[Plan, float]:
    begin = time.process_time()
    plan = action()
    return plan, time.process_time() - begin


def hard_row(problem: Problem, budget_ms: float, minimalloc: str | None) -> tuple[list[str], list[float]]:
    """Plans within the budget; then the time until the capacity is met, ours and the peer's."""
    quick = plan_offsets(*problem.buffers)
    budgeted = plan_offsets(*problem.buffers, budget_ns=int(budget_ms * 1e6))
    exact, ours = processor_seconds(lambda: plan_exact(*problem.buffers, 1, problem.capacity, timeout=600))
    for plan, alignment in ((quick, 64), (budgeted, 64), (exact, 1)):
        verify(plan, *problem.buffers, alignment)
    theirs = peer_seconds(minimalloc, problem) if minimalloc else float("nan")
    figures = [quick.peak / quick.lower_bound, budgeted.peak / budgeted.lower_bound, ours, theirs]
    return [problem.name, str(len(problem.buffers[0])), *(f"{figure:.3f}" for figure in figures)], figures


def peer_seconds(program: str, problem: Problem) -> float:
    """Processor time of a minimalloc binary on the same problem."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.csv"
        rows = zip(*problem.buffers, strict=True)
        lines = [f"{i},{first},{last},{size}" for i, (size, first, last) in enumerate(rows)]
        path.write_text("\n".join(["id,lower,upper,size", *lines]) + "\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(
            [program, f"--capacity={problem.capacity}", f"--input={path}", f"--output={path}.out"],
            check=True,
            capture_output=True,
        )
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def report(problems: list[Problem], budget_ms: float, minimalloc: str | None) -> str:
    """Both tables as Markdown."""
    models = [model_row(problem) for problem in problems if problem.capacity is None]
    hard = [hard_row(problem, budget_ms, minimalloc) for problem in problems if problem.capacity is not None]
    parts = []
    if models:
        heads = ["model", "buffers", "first plan / bound", "us", "us / buffer", "export / bound", "ms"]
        parts.append(table(heads, models))
    if hard:
        heads = [
            "instance",
            "buffers",
            "first plan / bound",
            f"{budget_ms:g} ms / bound",
            "fits capacity, s",
            "minimalloc, s",
        ]
        columns = list(zip(*(figures for _, figures in hard), strict=True))
        mean = [f"{statistics.mean(column):.3f}" for column in columns[:2]]
        worst = [f"{max(column):.3f}" for column in columns[:2]]
        total = [f"{sum(column):.3f}" for column in columns[2:]]
        parts.append(
            table(heads, [*(row for row, _ in hard), ["mean", "", *mean, "", ""], ["worst, sum", "", *worst, *total]])
        )
    return "\n\n".join(parts)


def section(options: argparse.Namespace) -> str:
    """The section of RESULTS.md, with its command and the machine."""
    words = ["python", "-m", "bench.planner", f"--budget-ms={options.budget_ms:g}"]
    if options.minimalloc:
        words.append("--minimalloc=PROGRAM")
    return "\n\n".join(
        [
            "## Planner",
            NOTES,
            f"```\n{shlex.join(words)}\n```",
            table(("", ""), describe()),
            report(read_problems(options.folder), options.budget_ms, options.minimalloc),
        ]
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the section; put it into RESULTS.md if asked."""
    parser = argparse.ArgumentParser(prog="python -m bench.planner", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA, help="lists of buffers (default: tests/data)")
    parser.add_argument("--budget-ms", type=float, default=50, help="budget of the run-time search (default: 50)")
    parser.add_argument("--minimalloc", help="a minimalloc program to run beside")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    options = parser.parse_args(arguments)
    text = section(options)
    print(text)
    if options.write:
        write_sections(text)


if __name__ == "__main__":
    main()
