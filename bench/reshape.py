"""The first call at a shape never seen: what it takes beyond the run, beside the stock runtime's.

    python -m bench.reshape [MODEL ...] [--write]

Both take the same new shapes in turn in one process. With etarena a call at a new shape less the next one at that shape
is what the shape cost: XNNPACK's reshape, its plan of its scratch, the plan of the whole model, the placing of all
tensors. With the stock runtime it is XNNPACK's reshape, which it does again in every call, new shape or not, so that it
is timed from within. Models are exported in one process and run in another: an export leaves memory in such pieces
that what is allocated after it lies far apart, which no device would see.
"""

import argparse
import gc
import json
import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

import etarena
from etarena.delegates.xnnpack import scratch
from etarena.demo.catalogue import make
from etarena.demo.models import DemoModel, Size
from etarena.demo.runs import relative_error
from etarena.quiet import quiet

from .machine import describe
from .published import PUBLISHED
from .rows import last_line, printed
from .sections import table, write_sections
from .subjects import run_stock

__all__ = ["SIZES", "Cost", "export", "measure", "section"]

SIZES: dict[str, tuple[Size, Size]] = {
    "bert": ((4,), (64,)),
    "llama": ((4,), (64,)),
    "mobilenet_v2": ((64, 64), (160, 160)),
    "segformer": ((64, 64), (96, 160)),
    "bert_base": ((4,), (64,)),
    "llama_135m": ((4,), (64,)),
    "vit_small": ((64, 64), (160, 224)),
    "segformer_b0": ((64, 64), (160, 224)),
}
"""Models of the demo, then in published sizes, all lowered for XNNPACK here: the new shapes lie between these sizes."""

SHAPES, REPEATS, FEW_REPEATS = 12, 60, 20
SECONDS = 1800
HEADING = "## A new shape with XNNPACK"
NOTES = """\
What a new shape costs beyond the run. `before the run`: what `last_run` counts of it, planning with XNNPACK's reshape
and measuring (`plan_ns`) and giving tensors and delegates their places (`bind_ns`). `etarena`: all of it, as a call at
a new shape less the next call at that shape, so that what the run takes longer after it counts too; where a run takes
many milliseconds its noise is larger than that (`?`). `stock`: time inside XNNPACK's own reshape in a call of the stock
runtime at that shape, on a stock export with bounds; it reshapes in every call. `stock call`: what `etarena` is, of the
stock runtime: its call at a new shape less the next one, without what XNNPACK's reshape took of that; in both is what a
run costs more after another shape, because it finds less in the cache. Both runtimes take the same shapes in turn in
one process, which loads files that another has exported, {repeats} times each ({few} for models in published sizes)
with another shape in between, no plan kept, the input just read. Times are the shortest of those calls, differences of
calls the medians of their pairs; the figures are medians over {shapes} shapes. Target: at most 1.2 x stock. `first
call`: all of it, run included."""
LONGEST_RUN = 5000.0  # us; from there on what a run varies by is larger than what a shape costs


@dataclass
class Cost:
    """Medians in microseconds of what a new shape costs beyond the run, and of the whole first call."""

    name: str
    shapes: int
    ours: float
    before: float
    stock: float
    our_first: float
    stock_first: float
    stock_call: float


def export(name: str, folder: Path, shapes: int = SHAPES) -> None:
    """Write a model exported both ways into a folder, and inputs of all sizes, the largest first."""
    model = PUBLISHED[name]() if name in PUBLISHED else make(name)
    smallest, largest = SIZES[name]
    (folder / "etarena.pte").write_bytes(_ours(model).buffer)
    (folder / "stock.pte").write_bytes(_stock(model, largest))
    torch.save([model.input(size) for size in _between(smallest, largest, shapes + 1)], folder / "inputs.pt")


def measure(name: str, folder: Path) -> Cost:
    """Give both exports of a folder the same new shapes."""
    repeats = FEW_REPEATS if name in PUBLISHED else REPEATS
    ways = {
        "ours": etarena.load(folder / "etarena.pte", arena=etarena.Arena(name=name), plan_cache=0).method(),
        "stock": run_stock(folder / "stock.pte"),
    }
    costs: dict[str, list[float]] = {name: [] for name in (*ways, "before", "stock call")}
    firsts: dict[str, list[float]] = {name: [] for name in ways}
    inputs = torch.load(folder / "inputs.pt")
    for given, other in pairwise(inputs):
        first, again, inside = _alternate(ways, [other], [given], repeats)
        for way in ways:
            firsts[way].append(min(first[way]))
        more = {way: [one - other for one, other in zip(first[way], again[way], strict=True)] for way in ways}
        costs["ours"].append(median(more["ours"]))
        costs["before"].append(min(inside["before"]))
        costs["stock"].append(min(inside["reshape"]))
        costs["stock call"].append(median(map(sum, zip(more["stock"], inside["reshape again"], strict=True))))
        assert relative_error(*(method.execute([given])[0] for method in ways.values())) < 1e-4
    figures = (costs["ours"], costs["before"], costs["stock"], *firsts.values(), costs["stock call"])
    return Cost(name, len(inputs) - 1, *(median(times) / 1e3 for times in figures))


def _measure_apart(name: str) -> Cost:
    """Export in one process and measure in another."""
    with tempfile.TemporaryDirectory() as folder:
        last_line("bench.reshape", name, "--export", folder, seconds=SECONDS)
        return Cost(**json.loads(last_line("bench.reshape", name, "--measure", folder, seconds=SECONDS)))


Times = dict[str, list[int]]


def _alternate(ways: dict[str, Any], beside: list[Any], inputs: list[Any], repeats: int) -> tuple[Times, Times, Times]:
    """Nanoseconds of calls after another shape, of calls after those, of work before our runs, of stock's reshapes."""
    first: Times = {way: [] for way in ways}
    again: Times = {way: [] for way in ways}
    inside: Times = {part: [] for part in ("before", "reshape", "reshape again")}
    gc.disable()
    try:
        for turn in range(repeats):
            for way in list(ways) if turn % 2 else reversed(list(ways)):
                method = ways[way]
                method.execute(beside)
                scratch.reshape_ns_of_others()
                first[way].append(_timed(method, inputs))
                if way == "ours":
                    inside["before"].append(method.last_run.plan_ns + method.last_run.bind_ns)
                else:
                    inside["reshape"].append(scratch.reshape_ns_of_others())
                again[way].append(_timed(method, inputs))
                if way == "stock":
                    inside["reshape again"].append(scratch.reshape_ns_of_others())
    finally:
        gc.enable()
    return first, again, inside


def _timed(method: Any, inputs: list[Any]) -> int:
    for tensor in inputs:
        tensor.sum()  # in the cache, as if just written: what else a call finds there depends on the call before
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


def _stock(model: DemoModel, largest: Size) -> bytes:
    example = model.input(tuple(map(min, model.example, largest)))
    with quiet(), torch.no_grad():
        program = torch.export.export(model.module, (example,), dynamic_shapes=model.dynamic_shapes(largest))
        return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch().buffer


def section(costs: Sequence[Cost]) -> str:
    """The section of RESULTS.md."""
    heads = (
        "model",
        "shapes",
        "before the run us",
        "stock us",
        "ratio",
        "etarena us",
        "ratio",
        "stock call us",
        "ratio to it",
        "etarena first call us",
        "stock first call us",
        "ratio",
    )
    rows = [
        (
            cost.name,
            str(cost.shapes),
            f"{cost.before:.0f}",
            f"{cost.stock:.0f}",
            f"{cost.before / cost.stock:.3f}",
            *_differences(cost),
            f"{cost.our_first:.0f}",
            f"{cost.stock_first:.0f}",
            f"{cost.our_first / cost.stock_first:.3f}",
        )
        for cost in costs
    ]
    notes = NOTES.format(shapes=SHAPES, repeats=REPEATS, few=FEW_REPEATS)
    command = "```\npython -m bench.reshape --write\n```"
    return "\n\n".join([HEADING, notes, command, table(("", ""), describe()), table(heads, rows)])


def _differences(cost: Cost) -> list[str]:
    """What only comparing whole calls tells, where it tells something."""
    if cost.our_first > LONGEST_RUN:
        return ["?"] * 4
    ratio, call = cost.ours / cost.stock, cost.ours / cost.stock_call
    return [f"{cost.ours:.0f}", f"{ratio:.3f}", f"{cost.stock_call:.0f}", f"{call:.3f}"]


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[*SIZES, []], help="all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="only export one model into a folder")
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help="only measure what was exported into a folder")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    names = arguments.models or list(SIZES)
    if arguments.export:
        export(names[0], arguments.export)
        print(names[0])
        return
    if arguments.measure:
        print(printed(measure(names[0], arguments.measure)))
        return
    costs = []
    for name in names:
        costs.append(_measure_apart(name))
        print(printed(costs[-1]), flush=True)
    if arguments.write:
        write_sections(section(costs) + "\n")


if __name__ == "__main__":
    main()
