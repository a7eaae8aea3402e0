"""Plans fixed at export of every model of `bench.models`, against ExecuTorch's own planner on the same graphs.

    python -m bench.static_plans [MODEL ...] [--write]

A model is exported by ``etarena.export(..., memory="static")`` for one size. Both planners are given the same graph,
in turn and several times, just before the program is emitted. What comes out runs on the stock runtime, and its results
are compared with eager PyTorch. Models that XNNPACK takes in parts are there a second time, lowered with its
partitioner. The rows are kept in out/static_plans.json: a run of some models replaces theirs, and the table has all.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from .branching import BRANCHING
from .coverage import LARGEST_ERROR, error_of
from .machine import describe
from .models import MODELS
from .rows import keep_rows, measured_apart, printed
from .sections import table, write_sections

__all__ = ["Row", "keep", "measure", "section"]

BACKENDS = ("cpu", "xnnpack")
IN_PARTS = ("unet", "normed_unet", "denoiser", "selected", "slot_attention", "vit", "dpt", "yolos", "modernbert")
IN_PARTS += ("t5_encoder", "detr")
ROUNDS = 7
SECONDS = 1800
KEPT = Path("out/static_plans.json")
HEADING = "## Plans fixed at export"
NOTES = """\
Every model of `bench/models`, at its middle size, and the networks of `bench/branching.py` (the first rows), exported
with `memory="static"`, inputs and results in the plan. `ours`, `stock`: bytes planned in KiB by etarena and by
ExecuTorch's planner (`MemoryPlanningPass`, its default) for the same graph, with the same settings; `bound`: the
largest sum of bytes alive at one instruction, each buffer rounded up to 16 bytes as both planners do. `smaller`: what
ours saves. `time`: fastest of several runs of our planning step over the fastest of stock's, in turn in one process;
rows that were measured first have medians. A row is that of the model's last run, whichever work ran beside it.
`error`: largest difference of the results of the file with our plan, which the verifier accepts, on the stock runtime,
from eager PyTorch over their largest magnitude. Models marked `xnnpack` are lowered with the stock partitioner;
`parts` counts its delegates, `bodies` the graphs of control flow. `no plan`: stock leaves the bodies of a `while_loop`
without memory. Targets: ours at most 1.01 x bound and never more than stock, at least 25 % smaller for five models
with bodies or parts, time at most 0.3."""


@dataclass
class Row:
    """What was measured of one model.

    Attributes
    ----------
    name, backend, size
        The model, how it was lowered, and its size as text.
    parts, bodies, whiles
        Delegates, graphs of control flow, and ``while_loop`` among its operators, which stock's planner leaves out.
    ours, stock, bound
        Bytes planned, and the lower bound.
    our_ns, stock_ns
        Shortest times of the planning step.
    error
        Of the results of our file.
    failure
        Why there are no figures, or what is wrong; empty otherwise.
    """

    name: str
    backend: str
    size: str = ""
    parts: int = 0
    bodies: int = 0
    whiles: int = 0
    ours: int = 0
    stock: int = 0
    bound: int = 0
    our_ns: int = 0
    stock_ns: int = 0
    error: float = 0.0
    failure: str = ""


def measure(name: str, backend: str) -> Row:
    """Export one model with both planners in this process, and run the file with our plan on the stock runtime."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    import etarena

    module, inputs, size = _subject(name)
    row = Row(name, backend, size)
    partitioners = []
    if backend == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioners.append(XnnpackPartitioner())
    with torch.no_grad():
        wanted = tree_leaves(module(*tree_map(torch.clone, inputs)))
        with _both_planners(row):
            exported: Any = etarena.export(module, inputs, partitioners=partitioners, memory="static")
    plan = exported.plan()
    row.ours, row.bound = plan.peak, plan.lower_bound
    padding = 64 if row.parts else 0  # both planners reserve what XNNPACK may read behind the last buffer
    row.bound += padding
    row.error = max(_run(exported.buffer, inputs, wanted))
    if not row.error <= LARGEST_ERROR:
        row.failure = f"wrong result: error {row.error:.1e}"
    return row


def _subject(name: str) -> tuple[Any, tuple[Any, ...], str]:
    """A module, its inputs, and their size as text."""
    if name in BRANCHING:
        module, inputs = BRANCHING[name]()
        return module, inputs, " x ".join(map(str, inputs[0].shape))
    model = MODELS[name].make()
    size = model.sizes[len(model.sizes) // 2]
    return model.module, model.inputs(size), " x ".join(map(str, size))


def _run(buffer: bytes, inputs: Sequence[Any], wanted: Sequence[Any]) -> list[float]:
    """Errors of the results on the stock runtime, in two calls."""
    import torch
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(buffer).load_method("forward")
    assert method is not None
    errors = []
    for _ in range(2):
        got = method.execute([tensor.clone() if isinstance(tensor, torch.Tensor) else tensor for tensor in inputs])
        errors += [error_of(*pair) for pair in zip(got, wanted, strict=True)]
    return errors or [0.0]


@contextmanager
def _both_planners(row: Row) -> Iterator[None]:
    """Within the block, time both planners whenever ours is asked for a plan."""
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.exir.passes import MemoryPlanningPass
    from torch.fx import GraphModule

    from etarena.loops import WHILE_LOOP
    from etarena.static.planning_pass import StaticPlanningPass

    ours = StaticPlanningPass.run

    def run(self: StaticPlanningPass, graph_module: Any, signature: Any = None) -> Any:
        modules = [module for module in graph_module.modules() if isinstance(module, GraphModule)]
        row.bodies = len(_bodies(graph_module))
        row.parts = sum(node.target is executorch_call_delegate for module in modules for node in module.graph.nodes)
        row.whiles = sum(node.target is WHILE_LOOP for module in modules for node in module.graph.nodes)
        planners = {"stock": lambda: MemoryPlanningPass().run(graph_module, signature)}
        planners["ours"] = lambda: ours(self, graph_module, signature)
        spent: dict[str, list[int]] = {"stock": [], "ours": []}
        for _ in range(ROUNDS):
            for planner, plan in planners.items():
                _forget(modules)
                begin = time.perf_counter_ns()
                result = plan()
                spent[planner].append(time.perf_counter_ns() - begin)
                if planner == "stock":
                    row.stock = sum(graph_module.meta["non_const_buffer_sizes"])
        row.our_ns, row.stock_ns = min(spent["ours"]), min(spent["stock"])
        del self.plans[1:]
        return result

    with mock.patch.object(StaticPlanningPass, "run", run):
        yield


def _bodies(graph_module: Any) -> list[Any]:
    from torch.fx import GraphModule

    nodes = [node for node in graph_module.graph.nodes if node.op == "get_attr"]
    found = [getattr(graph_module, node.target, None) for node in nodes]
    inner = [body for body in found if isinstance(body, GraphModule)]
    return inner + [body for module in inner for body in _bodies(module)]


def _forget(modules: Sequence[Any]) -> None:
    """Take back what a planner wrote into a graph."""
    from executorch.exir import memory
    from executorch.exir.passes.replace_view_copy_with_view_pass import _ViewSpec
    from executorch.exir.tensor import TensorSpec
    from torch.utils._pytree import tree_leaves

    for module in modules:
        for node in module.graph.nodes:
            for spec in tree_leaves(node.meta.get("spec")):
                if isinstance(spec, TensorSpec) and not isinstance(spec, _ViewSpec):
                    spec.init_mem_planning_fields()
            if node.target is memory.alloc:
                node.meta.pop("spec", None)


def apart(name: str, backend: str) -> Row:
    """`measure` in a process of its own."""
    return measured_apart(Row(name, backend), "bench.static_plans", "--one", name, backend, seconds=SECONDS)


def section(rows: Sequence[Row]) -> str:
    """The section of RESULTS.md."""
    heads = ["model", "size", "parts", "bodies", "ours", "bound", "ours / bound", "stock", "smaller", "time", "error"]
    measured = [row for row in rows if row.ours]
    parts = [HEADING, NOTES, "```\npython -m bench.static_plans --write\n```", table(("", ""), describe())]
    parts.append(table(heads, [_cells(row) for row in measured]))
    return "\n\n".join([*parts, *_summary(rows, measured)])


def _summary(rows: Sequence[Row], measured: Sequence[Row]) -> Iterator[str]:
    worst = max((row.ours / row.bound for row in measured if row.bound), default=1.0)
    compared = [row for row in measured if not row.whiles]
    above = [f"{row.name} ({row.backend})" for row in compared if row.ours > row.stock]
    good = [row.name for row in compared if (row.parts or row.bodies) and row.ours <= 0.75 * row.stock]
    slow = max((row.our_ns / row.stock_ns for row in measured if row.stock_ns), default=0.0)
    yield (
        f"{len(measured)} of {len(rows)} exports. The largest ours / bound is {worst:.4f}, the largest time "
        f"{slow:.2f} x stock's. More than stock: {', '.join(above) or 'none'}. At least 25 % smaller, with bodies or "
        f"parts: {', '.join(dict.fromkeys(good)) or 'none'}."
    )
    for row in rows:
        if row.failure:
            yield f"{row.name} ({row.backend}): {row.failure}"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name if row.backend == "cpu" else f"{row.name} ({row.backend})",
        row.size,
        f"{row.parts}",
        f"{row.bodies}",
        f"{row.ours / 1024:,.1f}",
        f"{row.bound / 1024:,.1f}",
        f"{row.ours / row.bound if row.bound else 1:.4f}",
        f"{row.stock / 1024:,.1f}" if not row.whiles else "no plan",
        f"{1 - row.ours / row.stock:.1%}" if row.stock and not row.whiles else "",
        f"{row.our_ns / row.stock_ns if row.stock_ns else 0:.2f}",
        f"{row.error:.1e}",
    )


def cases() -> list[tuple[str, str]]:
    """Every model, and how it is lowered."""
    return [(name, "cpu") for name in (*BRANCHING, *MODELS)] + [(name, "xnnpack") for name in IN_PARTS]


def keep(rows: Sequence[Row], path: Path = KEPT) -> list[Row]:
    """Replace these rows in a file, and return all that are in it, in the order of the models."""
    return keep_rows(rows, path, Row, lambda row: (row.name, row.backend), cases())


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        logging.disable(logging.WARNING)
        print(printed(measure(*arguments.one)))
        return
    unknown = sorted(set(arguments.models) - {*MODELS, *BRANCHING})
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    failed = False
    for name, backend in cases():
        if not arguments.models or name in arguments.models:
            row = apart(name, backend)
            rows = keep([row])
            failed |= bool(row.failure)
            print(" | ".join((*_cells(row), row.failure)), flush=True)
            if arguments.write:
                write_sections(section(rows) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
