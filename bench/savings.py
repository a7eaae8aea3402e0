"""Activation memory of models that XNNPACK runs in parts: one arena, against stock ExecuTorch with XNNPACK beside it.

    python -m bench.savings [MODEL ...] [--write]

Both count what is needed between the caller's inputs and results, and no weights. Ours: the arena of a run, in which
XNNPACK's scratch is a buffer of the plan. Stock: the buffers that its planner reserves, and the workspace that XNNPACK
holds after a run, which the interposed allocator counts in a process of its own. The rows are kept in
out/savings.json: a run of some models replaces theirs, and the table has all of them.
"""

import argparse
import copy
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .machine import describe
from .models import MODELS
from .rows import keep_rows, last_line, measured_apart, printed
from .sections import table, write_sections

__all__ = ["CASES", "Row", "keep", "measure", "section"]

Size = tuple[int, ...]

CASES: dict[str, Size] = {
    "demo bert": (256,),
    "demo llama": (256,),
    "demo segformer": (256, 384),
    "demo mobilenet_v2": (224, 224),
    "unet": (1, 256, 256),
    "normed_unet": (1, 128, 128),
    "denoiser": (1, 64, 96),
    "selected": (4096,),
    "slot_attention": (1, 256),
    "vit": (1, 128, 160),
    "dpt": (2, 64, 64),
    "yolos": (1, 128, 160),
    "modernbert": (1, 200),
    "t5_encoder": (1, 200),
    "detr": (1, 256, 320),
}
"""The models of the table, the demo's by the name they have there, and the size each is measured at."""

SECONDS = 1800
KEPT = Path("out/savings.json")
HEADING = "## Savings over XNNPACK beside a plan"
NOTES = """\
Activation memory in KiB of models that XNNPACK runs in parts, at one size, all lowered with the stock partitioner, like
with like: `fixed` is exported for this size alone, `varying` without bounds by etarena and with bounds at this size for
stock ExecuTorch; `no stock` where it cannot export the model, as said below. `arena`: of a run of etarena, XNNPACK's
scratch included; `bound`: the largest sum of live bytes and scratch at any instruction, below which no plan can be.
`planned`: the buffers that stock ExecuTorch plans, the caller's inputs and results not counted on either side;
`workspace`: what its XNNPACK holds after a run, counted by the allocator that XNNPACK is given. `most`: what a plan as
small as the bound would save. Targets: arena at most 1.05 x bound and never more than stock, at least 20 % saved by
three models or more."""


@dataclass
class Row:
    """What was measured of one model, exported one way.

    Attributes
    ----------
    name, size, sizes
        The model, its size as text, and whether the export's sizes are ``"fixed"`` or ``"varying"``.
    delegates, stock_delegates
        Number of XNNPACK's delegates in etarena's export and in the stock one.
    arena, bound, scratch
        Of a run of ours, in bytes: the arena, the lower bound, the largest scratch of one call.
    planned, workspace
        Of stock: bytes of its plan, and of the workspace that XNNPACK holds after a run.
    difference
        Largest difference of our results from those of eager PyTorch over their largest magnitude.
    failure
        Why there are no figures, or none of stock ExecuTorch; empty if there are all.
    """

    name: str
    size: str
    sizes: str
    delegates: int = 0
    stock_delegates: int = 0
    arena: int = 0
    bound: int = 0
    scratch: int = 0
    planned: int = 0
    workspace: int = 0
    difference: float = 0.0
    failure: str = ""

    @property
    def stock(self) -> int:
        """All that stock ExecuTorch takes, in bytes."""
        return self.planned + self.workspace


def measure(name: str, sizes: str) -> Row:
    """Export and run one model both ways in this process."""
    row = Row(name, " x ".join(map(str, CASES[name])), sizes)
    module, inputs, example, dynamic = _subject(name)
    if sizes == "fixed":
        _measure_ours(row, module, inputs, inputs, None)
        _compare(row, module, inputs, inputs, None)
        return row
    limits = [tuple(tensor.shape) for tensor in inputs]
    small = tuple(_within(tensor, limit) for tensor, limit in zip(example, limits, strict=True))
    _measure_ours(row, module, inputs, example, _varying(dynamic, None))
    _compare(row, module, inputs, small, _varying(dynamic, limits))
    return row


def _compare(row: Row, *subject: Any) -> None:
    """`_measure_stock`; where stock ExecuTorch cannot do it, our figures stand alone and the row says why."""
    try:
        _measure_stock(row, *subject)
    except Exception as error:
        row.planned = row.workspace = 0
        row.failure = f"stock ExecuTorch: {type(error).__name__}: {next(iter(str(error).splitlines()), '').strip()}"


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


def _measure_ours(row: Row, module: Any, inputs: tuple[Any, ...], example: tuple[Any, ...], shapes: Any) -> None:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from torch.utils._pytree import tree_leaves

    import etarena

    with torch.no_grad():
        exported = etarena.export(module, example, dynamic_shapes=shapes, partitioners=[XnnpackPartitioner()])
        wanted = tree_leaves(module(*inputs))
    row.delegates = sum(delegate.id == "XnnpackBackend" for delegate in exported.plan().delegates)
    arena = etarena.Arena(name=row.name)
    method: Any = etarena.load(exported.buffer, arena=arena).method()
    arena.scribble()
    results = method.execute(list(inputs))
    run = method.last_run
    row.arena, row.bound, row.scratch = run.arena_bytes, run.lower_bound_bytes, run.delegate_scratch_bytes
    row.difference = max(_difference(*pair) for pair in zip(results, wanted, strict=True))


def _measure_stock(row: Row, module: Any, inputs: tuple[Any, ...], example: tuple[Any, ...], shapes: Any) -> None:
    """Export with ExecuTorch's own functions and note what its plan takes; run it in a process of its own."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass

    with torch.no_grad():
        program = torch.export.export(module, example, dynamic_shapes=shapes)
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    nodes = edge.exported_program().graph_module.graph.nodes
    row.stock_delegates = sum(node.target is torch.ops.higher_order.executorch_call_delegate for node in nodes)
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    complete = copy.deepcopy(edge).to_executorch()  # the stock runtime from Python wants results in the plan
    lowered = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    plans = lowered.executorch_program.execution_plan
    row.planned = sum(size for plan in plans for size in plan.non_const_buffer_sizes)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(list(inputs), Path(folder, "inputs.pt"))
        Path(folder, "model.pte").write_bytes(complete.buffer)
        row.workspace = int(last_line("bench.savings", "--workspace", folder, seconds=SECONDS))


def workspace(folder: Path) -> int:
    """Bytes that XNNPACK's own workspaces hold after the stock runtime ran what `_measure_stock` left in a folder."""
    import torch

    from etarena.delegates.xnnpack import scratch

    from .subjects import run_stock

    method = run_stock(folder / "model.pte")
    assert scratch.is_active()
    method.execute(torch.load(folder / "inputs.pt"))
    now, _ = scratch.held_by_others()
    return now


def _difference(got: Any, wanted: Any) -> float:
    largest = float(wanted.abs().max()) or 1.0
    return float((got - wanted).abs().max()) / largest


def apart(name: str, sizes: str) -> Row:
    """`measure` in a process of its own."""
    row = Row(name, " x ".join(map(str, CASES[name])), sizes)
    return measured_apart(row, "bench.savings", "--one", name, sizes, seconds=SECONDS)


def section(rows: Sequence[Row]) -> str:
    """The section of RESULTS.md."""
    heads = ["model", "size", "sizes", "delegates (stock)", "scratch", "arena", "bound", "arena / bound"]
    heads += ["stock: planned", "workspace", "saved", "most"]
    measured = [row for row in rows if row.arena]
    parts = [HEADING, NOTES, "```\npython -m bench.savings --write\n```", table(("", ""), describe())]
    parts.append(table(heads, [_cells(row) for row in measured]))
    return "\n\n".join([*parts, *_summary(rows, measured)])


def _summary(rows: Sequence[Row], measured: Sequence[Row]) -> Iterator[str]:
    compared = [row for row in measured if row.stock]
    good = {row.name for row in compared if row.arena <= 0.8 * row.stock}
    above = [f"{row.name} ({row.sizes})" for row in compared if row.arena > row.stock]
    worst = max((row.arena / row.bound for row in measured if row.bound), default=1.0)
    yield (
        f"{len(good)} of {len({row.name for row in compared})} models take at least 20 % less than stock ExecuTorch in "
        f"one or both forms. More than stock: {', '.join(above) or 'none'}. The largest arena / bound is {worst:.4f}."
    )
    for row in rows:
        if row.failure:
            yield f"{row.name} ({row.sizes}): {row.failure}"


def _cells(row: Row) -> tuple[str, ...]:
    delegates, stock = f"{row.delegates}", ("", "", "no stock", "")
    if row.stock:
        most = 1 - row.bound / row.stock
        delegates += f" ({row.stock_delegates})"
        stock = (
            *(f"{nbytes / 1024:,.1f}" for nbytes in (row.planned, row.workspace)),
            f"{1 - row.arena / row.stock:.1%}",
            f"{most:.1%}" if most >= 0.005 else "the bound allows none",
        )
    return (
        row.name.removeprefix("demo "),
        row.size,
        row.sizes,
        delegates,
        *(f"{nbytes / 1024:,.1f}" for nbytes in (row.scratch, row.arena, row.bound)),
        f"{row.arena / row.bound if row.bound else 1:.4f}",
        *stock,
    )


def keep(rows: Sequence[Row], path: Path = KEPT) -> list[Row]:
    """Replace these rows in a file, and return all that are in it, in the order of the models."""
    order = [(name, sizes) for name in CASES for sizes in ("fixed", "varying")]
    return keep_rows(rows, path, Row, lambda row: (row.name, row.sizes), order)


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--workspace", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if arguments.one:
        print(printed(measure(*arguments.one)))
    elif arguments.workspace:
        print(workspace(arguments.workspace))
    else:
        short = {name.removeprefix("demo "): name for name in CASES}
        unknown = sorted(set(arguments.models) - set(short))
        if unknown:
            parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(short)}")
        _table_of([short[name] for name in arguments.models] or list(CASES), write=arguments.write)


def _table_of(names: Sequence[str], *, write: bool) -> None:
    for name in names:
        for sizes in ("fixed", "varying"):
            row = apart(name, sizes)
            rows = keep([row])
            print(" | ".join(_cells(row)) if row.arena else "", row.failure, flush=True)
            if write:
                write_sections(section(rows) + "\n")


if __name__ == "__main__":
    main()
