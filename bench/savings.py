"""Activation memory of models that XNNPACK runs in parts: one arena, against stock ExecuTorch with XNNPACK beside it.

    python -m bench.savings [MODEL ...] [--write]

Both count what is needed between the caller's inputs and results, and no weights. Ours: the arena of a run, in which
XNNPACK's scratch is a buffer of the plan. Stock: the buffers that its planner reserves, and the workspace that XNNPACK
holds after a run, which the interposed allocator counts. Every model runs in a process of its own; the rows are kept in
out/savings.json: a run of some models replaces theirs, and the table has all of them.
"""

import argparse
import copy
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from etarena.allocator.errors import Error

from .machine import describe
from .models import MODELS
from .sections import table, write_sections

__all__ = ["CASES", "Row", "Stock", "measure", "section"]

Size = tuple[int, ...]

CASES: dict[str, Size] = {
    "demo bert": (256,),
    "demo llama": (256,),
    "demo segformer": (256, 384),
    "demo mobilenet_v2": (224, 224),
    "unet": (1, 256, 256),
    "normed_unet": (1, 128, 128),
    "denoiser": (1, 64, 96),
    "detr": (1, 256, 320),
    "yolos": (1, 128, 160),
    "dpt": (2, 64, 64),
    "selected": (4096,),
    "slot_attention": (1, 256),
    "vit": (1, 128, 160),
    "convnext": (1, 128, 160),
    "efficientnet": (1, 128, 160),
    "whisper_encoder": (1, 100),
    "t5": (1, 200, 120),
    "modernbert": (1, 200),
}
"""The models of the table, the demo's by the name they have there, and the size each is measured at."""

SECONDS = 1800
KEPT = Path("out/savings.json")
HEADING = "## Savings over XNNPACK beside a plan"
NOTES = """\
Activation memory in KiB of models that XNNPACK runs in parts, at one size, all lowered with the stock partitioner.
`arena`: of a run of etarena's export, which has no bounds, XNNPACK's scratch included; `bound`: the largest sum of live
bytes and scratch at any instruction, below which no plan can be. `stock`: the buffers that stock ExecuTorch plans, the
caller's inputs and results not counted on either side, plus the workspace that its XNNPACK holds after a run, counted
by the allocator that XNNPACK is given; `fixed` is exported for this size alone, `bounded` with sizes up to it. `saved`:
against the smaller of the two; `most`: what a plan as small as the bound would save. Targets: arena at most 1.05 x
bound and never more than stock, at least 20 % saved by three models or more."""


class Stock(NamedTuple):
    """What one stock export takes: bytes planned, and bytes of the workspace that XNNPACK holds after a run."""

    planned: int
    workspace: int

    @property
    def total(self) -> int:
        """Both."""
        return self.planned + self.workspace


@dataclass
class Row:
    """What was measured of one model.

    Attributes
    ----------
    name, size
        The model, and its size as text.
    delegates, stock_delegates
        Number of XNNPACK's delegates in etarena's export, and in the stock export for this size alone.
    arena, bound, scratch
        Of a run of ours, in bytes: the arena, the lower bound, the largest scratch of one call.
    fixed, bounded
        The stock exports; None where stock ExecuTorch cannot export or run the model, and why in `failure`.
    difference
        Largest difference of our results from those of the first stock export over their largest magnitude.
    """

    name: str
    size: str
    delegates: int = 0
    stock_delegates: int = 0
    arena: int = 0
    bound: int = 0
    scratch: int = 0
    fixed: Stock | None = None
    bounded: Stock | None = None
    difference: float = 0.0
    failure: str = ""

    @property
    def stock(self) -> int:
        """Bytes of the smaller stock export; 0 if there is none."""
        return min((stock.total for stock in (self.fixed, self.bounded) if stock is not None), default=0)


def measure(name: str) -> Row:
    """Export and run one model both ways in this process."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    import etarena

    module, inputs, example, dynamic = _subject(name)
    row = Row(name, " x ".join(map(str, CASES[name])))
    with torch.no_grad():
        exported = etarena.export(
            module, example, dynamic_shapes=_varying(dynamic, None), partitioners=[XnnpackPartitioner()]
        )
        wanted = _flat(module(*inputs))
    row.delegates = sum(delegate.id == "XnnpackBackend" for delegate in exported.plan().delegates)
    arena = etarena.Arena(name=name)
    method = etarena.load(exported.buffer, arena=arena).method()
    arena.scribble()
    results = method.execute(list(inputs))
    run = method.last_run
    row.arena, row.bound, row.scratch = run.arena_bytes, run.lower_bound_bytes, run.delegate_scratch_bytes
    row.difference = max(_difference(*pair) for pair in zip(results, wanted, strict=True))
    bounds = _varying(dynamic, [tuple(tensor.shape) for tensor in inputs])
    small = tuple(_within(tensor, limit.shape) for tensor, limit in zip(example, inputs, strict=True))
    ways: dict[str, Callable[[], Any]] = {
        "fixed": lambda: torch.export.export(module, inputs),
        "bounded": lambda: torch.export.export(module, small, dynamic_shapes=bounds),
    }
    for way, export in ways.items():
        try:
            stock, row_delegates = _stock(export, list(inputs))
            setattr(row, way, stock)
            row.stock_delegates = row.stock_delegates or row_delegates
        except Exception as error:
            row.failure += f"{way}: {type(error).__name__}: {next(iter(str(error).splitlines()), '')}; "
    return row


def _subject(name: str) -> tuple[Any, tuple[Any, ...], tuple[Any, ...], Sequence[Any]]:
    """The module, inputs at the measured size and at that of the example, and which dimensions vary."""
    if name.startswith("demo "):
        from etarena.demo.catalogue import make

        demo = make(name.removeprefix("demo "))
        return demo.module, (demo.input(CASES[name]),), (demo.input(demo.example),), (demo.dynamic,)
    model = MODELS[name].make()
    return model.module, model.inputs(CASES[name]), model.inputs(model.example), model.dynamic


def _varying(dynamic: Sequence[Any], limits: Sequence[Size] | None) -> tuple[Any, ...]:
    """What `torch.export` is told: varying sizes without bounds, or up to those of `limits`."""
    from torch.export import Dim

    def kind(at: int, dim: int) -> Any:
        if limits is None:
            return Dim.DYNAMIC
        return Dim.DYNAMIC(max=limits[at][dim]) if limits[at][dim] > 1 else None

    return tuple(None if dims is None else {d: kind(at, d) for d in dims} for at, dims in enumerate(dynamic))


def _within(tensor: Any, limits: Size) -> Any:
    """The part of an example that is no larger than the bounds."""
    return tensor[tuple(slice(0, limit) for limit in limits)].contiguous()


def _stock(export: Callable[[], Any], inputs: list[Any]) -> tuple[Stock, int]:
    """Export with ExecuTorch's own functions, run, and say what that took, and how many delegates there were."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass

    with torch.no_grad():
        edge = to_edge_transform_and_lower(export(), partitioner=[XnnpackPartitioner()])
    nodes = edge.exported_program().graph_module.graph.nodes
    delegates = sum(node.target is torch.ops.higher_order.executorch_call_delegate for node in nodes)
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    complete = copy.deepcopy(edge).to_executorch()  # the stock runtime from Python wants results in the plan
    lowered = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    planned = sum(size for plan in lowered.executorch_program.execution_plan for size in plan.non_const_buffer_sizes)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(inputs, Path(folder, "inputs.pt"))
        Path(folder, "model.pte").write_bytes(complete.buffer)
        return Stock(planned, int(_in_a_process("--workspace", folder))), delegates


def workspace(folder: Path) -> int:
    """Bytes that XNNPACK's own workspaces hold after the stock runtime ran what `_stock` left in a folder."""
    import torch

    from etarena.delegates.xnnpack import scratch

    from .subjects import run_stock

    assert scratch.held_by_others() == (0, 0)
    method = run_stock(folder / "model.pte")
    method.execute(torch.load(folder / "inputs.pt"))
    now, _ = scratch.held_by_others()
    return now


def _flat(result: Any) -> list[Any]:
    from torch.utils._pytree import tree_leaves

    leaves: list[Any] = tree_leaves(result)
    return leaves


def _difference(got: Any, wanted: Any) -> float:
    largest = float(wanted.abs().max()) or 1.0
    return float((got - wanted).abs().max()) / largest


def apart(name: str) -> Row:
    """`measure` in a process of its own."""
    try:
        return row_of(json.loads(_in_a_process("--one", name)))
    except Error as error:
        return Row(name, "", failure=str(error))


def _in_a_process(*arguments: str) -> str:
    """The last line that this module prints there; Error with the last one of its complaints if it fails."""
    command = [sys.executable, "-m", "bench.savings", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise Error(next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}"))
    return lines[-1]


def row_of(data: dict[str, Any]) -> Row:
    """A row from plain data."""
    row = Row(**data)
    row.fixed, row.bounded = (None if stock is None else Stock(*stock) for stock in (row.fixed, row.bounded))
    return row


def section(rows: Sequence[Row]) -> str:
    """The section of RESULTS.md."""
    heads = ("model", "size", "delegates (stock)", "scratch", "arena", "bound", "arena / bound")
    heads += ("stock fixed", "stock bounded", "saved", "most")
    measured = [row for row in rows if row.stock]
    good = sum(row.arena <= 0.8 * row.stock for row in measured)
    above = [row.name for row in measured if row.arena > row.stock]
    worst = max((row.arena / row.bound for row in measured), default=1.0)
    parts = [HEADING, NOTES, "```\npython -m bench.savings --write\n```", table(("", ""), describe())]
    parts.append(table(heads, [_cells(row) for row in measured]))
    parts.append(
        f"{good} of {len(measured)} models take at least 20 % less than stock ExecuTorch; more than stock: "
        f"{', '.join(above) or 'none'}. The largest arena / bound is {worst:.4f}."
    )
    parts += [f"{row.name}: {row.failure}" for row in rows if row.failure]
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    most = 1 - row.bound / row.stock
    return (
        row.name.removeprefix("demo "),
        row.size,
        f"{row.delegates} ({row.stock_delegates})",
        *(f"{nbytes / 1024:,.1f}" for nbytes in (row.scratch, row.arena, row.bound)),
        f"{row.arena / row.bound:.4f}",
        *(_stock_text(stock) for stock in (row.fixed, row.bounded)),
        f"{1 - row.arena / row.stock:.1%}",
        f"{most:.1%}" if most >= 0.005 else "the bound allows none",
    )


def _stock_text(stock: Stock | None) -> str:
    return "-" if stock is None else f"{stock.planned / 1024:,.1f} + {stock.workspace / 1024:,.1f}"


def keep(rows: Sequence[Row], path: Path = KEPT) -> list[Row]:
    """Replace the rows of these models in a file, and return the rows of all models that are in it, in their order."""
    kept = {entry["name"]: row_of(entry) for entry in (json.loads(path.read_text()) if path.exists() else ())}
    kept |= {row.name: row for row in rows}
    known = [kept[name] for name in CASES if name in kept]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in known], indent=1))
    return known


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    parser.add_argument("--workspace", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        logging.disable(logging.WARNING)
        print(json.dumps(asdict(measure(arguments.one))))
        return
    if arguments.workspace:
        print(workspace(arguments.workspace))
        return
    chosen = [name for name in CASES if name.removeprefix("demo ") in arguments.models] or list(CASES)
    unknown = sorted(set(arguments.models) - {name.removeprefix("demo ") for name in CASES})
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(CASES)}")
    for name in chosen:
        row = apart(name)
        rows = keep([row])
        print(" | ".join((*_cells(row), row.failure)) if row.stock else f"{name}: {row.failure}", flush=True)
        if arguments.write:
            write_sections(section(rows) + "\n")


if __name__ == "__main__":
    main()
