"""Delegates, memory and time of exports with varying sizes beside those with fixed ones, all lowered for XNNPACK.

``python -m bench.fragments [--write] [MODEL ...]`` prints the table; with ``--write`` it goes into RESULTS.md.
"""

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from torch import Tensor, nn
from torch.export import Dim

import etarena
from etarena.demo.catalogue import make
from etarena.quiet import quiet

from .models import MODELS
from .sections import table, write_sections
from .side_by_side import in_turn, median_ratio, rounds_within

SIZES = {"bert": (64,), "llama": (64,), "mobilenet_v2": (224, 224), "segformer": (128, 192)}
"""Models of the demo and the size each is compared at."""
TITLE = "Delegates of exports with varying sizes"
HEADS = [
    "model",
    "size",
    "delegates: stock fixed",
    "stock varying",
    "etarena varying",
    "lower bound KiB: fixed",
    "varying",
    "ratio",
    "stock fixed us",
    "etarena varying us",
    "ratio",
    "largest difference",
]
TEXT = f"""## {TITLE}

`python -m bench.fragments --write`: one model exported with fixed sizes and with varying ones, both for XNNPACK with
the stock partitioner. Lower bounds count XNNPACK's scratch; those with fixed sizes are of etarena's own export. Times
are medians, their ratio the median over rounds in which both ran in turn. Targets: at most 1.2 x the delegates, 1.1 x
the lower bound, 1.05 x the time.

"""


class Case(NamedTuple):
    """A model, its inputs at the size that is compared, an example of another size, and what varies."""

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    example: tuple[Tensor, ...]
    dynamic: tuple[dict[int, Any], ...]


def cases(names: Sequence[str]) -> Iterator[Case]:
    """The models of the table, or those of the given names."""
    for name, size in SIZES.items():
        if not names or name in names:
            demo = make(name)
            yield Case(name, demo.module, (demo.input(size),), (demo.input(demo.example),), demo.dynamic_shapes())
    if not names or "vit" in names:
        vit = MODELS["vit"].make()
        pictures = vit.inputs((1, 128, 160)), vit.inputs((1, 72, 88))
        yield Case("vit", vit.module, *pictures, ({2: Dim.DYNAMIC, 3: Dim.DYNAMIC},))


def row(case: Case) -> list[str]:
    """Measure one model."""
    with torch.no_grad(), quiet():
        stock = _stock(case, case.inputs, None)
        fixed_file = bytes(stock.to_executorch().buffer)
        varying = _delegates(_stock(case, case.example, case.dynamic))
        options = {"partitioners": [XnnpackPartitioner()]}
        own_fixed = etarena.export(case.module, case.inputs, **options)
        own = etarena.export(case.module, case.example, dynamic_shapes=case.dynamic, **options)
    fixed = etarena.load(fixed_file).method()
    bounded = etarena.load(own_fixed.buffer).method()
    free = etarena.load(own.buffer).method()
    difference = (_first(free(*case.inputs)) - _first(fixed(*case.inputs))).abs().max()
    bounded(*case.inputs)
    bounds = bounded.last_run.lower_bound_bytes, free.last_run.lower_bound_bytes
    ways = {"fixed": lambda: fixed(*case.inputs), "free": lambda: free(*case.inputs)}
    samples = in_turn(ways, rounds_within(lambda: [call() for call in ways.values()], 8.0))
    medians = [sorted(samples[name])[len(samples[name]) // 2] / 1e3 for name in ways]
    (plan,) = deserialize_pte_binary(own.buffer).program.execution_plan
    return [
        case.name,
        " x ".join(map(str, case.inputs[0].shape)),
        str(_delegates(stock)),
        str(varying),
        str(sum(delegate.id == "XnnpackBackend" for delegate in plan.delegates)),
        *(f"{bound / 1024:.0f}" for bound in bounds),
        f"{bounds[1] / bounds[0]:.3f}",
        *(f"{time:.0f}" for time in medians),
        f"{median_ratio(samples, 'free', 'fixed'):.3f}",
        f"{float(difference):.1e}",
    ]


def _stock(case: Case, example: tuple[Tensor, ...], dynamic: Any) -> EdgeProgramManager:
    program = torch.export.export(case.module, example, dynamic_shapes=dynamic)
    return to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner()], compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )


def _delegates(edge: EdgeProgramManager) -> int:
    nodes = edge.exported_program().graph_module.graph.nodes
    return sum(node.target is torch.ops.higher_order.executorch_call_delegate for node in nodes)


def _first(result: Any) -> Tensor:
    first: Tensor = torch.from_dlpack(result[0] if isinstance(result, tuple | list) else result)
    return first


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into bench/RESULTS.md")
    parser.add_argument("models", nargs="*", choices=[*SIZES, "vit", []])
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = []
    for case in cases(options.models):
        rows.append(row(case))
        print(" | ".join(rows[-1]), flush=True)
        if options.write:  # after each, as all of them take minutes
            write_sections(TEXT + table(HEADS, rows) + "\n")


if __name__ == "__main__":
    main()
