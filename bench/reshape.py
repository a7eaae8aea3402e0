"""The first call at a shape never seen: what it takes beyond the run, beside the stock runtime's.

    python -m bench.reshape [MODEL ...] [--write]

Both take the same new shapes in turn in one process. A call at a new shape less the next one at that shape is what the
shape cost: with the stock runtime XNNPACK's reshape and its memory plan, with etarena those, the memory plan of the whole model
and the placing of all tensors.
"""

import argparse
import gc
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

import etarena
from etarena.demo.catalogue import make
from etarena.demo.models import DemoModel, Size
from etarena.demo.runs import relative_error
from etarena.quiet import quiet

from .machine import describe
from .sections import table, write_sections
from .subjects import run_stock

__all__ = ["SIZES", "Cost", "measure", "section"]

SIZES: dict[str, tuple[Size, Size]] = {
    "bert": ((16,), (128,)),
    "llama": ((16,), (128,)),
    "mobilenet_v2": ((96, 96), (224, 224)),
    "segformer": ((64, 64), (160, 224)),
}
"""Models of the demo, all lowered for XNNPACK here, and the smallest and largest size; the new shapes lie between."""

SHAPES, REPEATS = 12, 10
HEADING = "## A new shape with XNNPACK"
NOTES = """\
A call at a new shape less the next call at that shape: what a new shape costs beyond the run. Both runtimes take the same
shapes in turn in one process, {repeats} times each with a larger shape in between, no plan kept; the figures are medians
over {shapes} shapes of the shortest times. `stock` is the stock runtime on a stock export bounded at the larger shape; its
cost is XNNPACK's reshape. `planning` is the part of ours that `last_run.plan_ns` counts. Target: at most 1.2 x stock."""


class Cost(NamedTuple):
    """Medians in microseconds of what a new shape costs beyond the run, and of the run at a known shape."""

    name: str
    shapes: int
    ours: float
    planning: float
    stock: float
    our_run: float
    stock_run: float


def measure(name: str, shapes: int = SHAPES, repeats: int = REPEATS) -> Cost:
    """Export a model both ways and give both the same new shapes."""
    model = make(name)
    smallest, largest = SIZES[name]
    ways = {
        "ours": etarena.load(_ours(model).buffer, arena=etarena.Arena(name=name), plan_cache=0).method(),
        "stock": run_stock(_stock(model, largest)),
    }
    beside = [model.input(largest)]
    costs: dict[str, list[int]] = {name: [] for name in (*ways, "planning")}
    runs: dict[str, list[int]] = {name: [] for name in ways}
    sizes = _between(smallest, largest, shapes)
    for size in sizes:
        inputs = [model.input(size)]
        first, again, plans = _alternate(ways, beside, inputs, repeats)
        for way in ways:
            costs[way].append(min(first[way]) - min(again[way]))
            runs[way].append(min(again[way]))
        costs["planning"].append(min(plans))
        assert relative_error(*(method.execute(inputs)[0] for method in ways.values())) < 1e-4
    figures = (costs["ours"], costs["planning"], costs["stock"], runs["ours"], runs["stock"])
    return Cost(name, len(sizes), *(median(times) / 1e3 for times in figures))


Times = dict[str, list[int]]


def _alternate(
    ways: dict[str, Any], beside: list[Any], inputs: list[Any], repeats: int
) -> tuple[Times, Times, list[int]]:
    """Nanoseconds of calls after a call at another shape, of calls after those, and of etarena's planning."""
    first: Times = {way: [] for way in ways}
    again: Times = {way: [] for way in ways}
    plans = []
    gc.disable()
    try:
        for turn in range(repeats):
            for way in list(ways) if turn % 2 else reversed(list(ways)):
                method = ways[way]
                method.execute(beside)
                first[way].append(_timed(method, inputs))
                if way == "ours":
                    plans.append(method.last_run.plan_ns)
                again[way].append(_timed(method, inputs))
    finally:
        gc.enable()
    return first, again, plans


def _timed(method: Any, inputs: list[Any]) -> int:
    before = time.perf_counter_ns()
    result = method.execute(inputs)
    after = time.perf_counter_ns()
    del result
    return after - before


def _between(smallest: Size, largest: Size, count: int) -> list[Size]:
    """Distinct sizes from below the largest down to the smallest."""
    steps = [
        tuple(low + (high - low) * step // count for low, high in zip(smallest, largest, strict=True))
        for step in reversed(range(count))
    ]
    return list(dict.fromkeys(steps))


def _ours(model: DemoModel) -> etarena.ExportedModel:
    with quiet(), torch.no_grad():
        return etarena.export(
            model.module,
            (model.input(model.example),),
            dynamic_shapes=model.dynamic_shapes(),
            partitioners=[XnnpackPartitioner()],
        )


def _stock(model: DemoModel, largest: Size) -> Path:
    example = model.input(tuple(map(min, model.example, largest)))
    with quiet(), torch.no_grad():
        program = torch.export.export(model.module, (example,), dynamic_shapes=model.dynamic_shapes(largest))
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    path = Path(tempfile.mkdtemp()) / "stock.pte"
    path.write_bytes(lowered.buffer)
    return path


def section(costs: Sequence[Cost]) -> str:
    """The section of RESULTS.md."""
    heads = ("model", "shapes", "etarena us", "planning us", "stock us", "to stock", "etarena run us", "stock run us")
    rows = [
        (
            cost.name,
            str(cost.shapes),
            f"{cost.ours:.0f}",
            f"{cost.planning:.0f}",
            f"{cost.stock:.0f}",
            f"{cost.ours / cost.stock:.3f}",
            f"{cost.our_run:.0f}",
            f"{cost.stock_run:.0f}",
        )
        for cost in costs
    ]
    notes = NOTES.format(shapes=SHAPES, repeats=REPEATS)
    command = "```\npython -m bench.reshape --write\n```"
    return "\n\n".join([HEADING, notes, command, table(("", ""), describe()), table(heads, rows)])


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[*SIZES, []], help="all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    costs = []
    for name in arguments.models or SIZES:
        costs.append(measure(name))
        print(*(f"{figure:.1f}" if isinstance(figure, float) else figure for figure in costs[-1]), flush=True)
    if arguments.write:
        write_sections(section(costs) + "\n")


if __name__ == "__main__":
    main()
