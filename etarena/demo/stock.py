"""What stock ExecuTorch reserves for a model: exported with bounds, planned by its own planner, not run.

Run as ``python -m etarena.demo.stock NAME...`` it prints one JSON object a line, so that the demo can have these
exports made beside its own.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from typing import IO, Any

import torch

from ..allocator.errors import Error
from ..quiet import quiet
from .catalogue import make
from .models import DemoModel, Size

__all__ = ["StockPlan", "export_stock", "planned_beside", "stock_plan"]


@dataclass(frozen=True)
class StockPlan:
    """Memory that a stock program reserves when it is loaded.

    Attributes
    ----------
    name : str
        The model.
    largest : Size
        The upper bounds it was exported with.
    planned_bytes : int
        Sum of its planned buffers: activations, inputs and outputs at those bounds.
    """

    name: str
    largest: Size
    planned_bytes: int


def export_stock(model: DemoModel, largest: Size, *, static: bool = False) -> Any:
    """Export with ExecuTorch's own functions and defaults.

    Parameters
    ----------
    model : DemoModel
        What to export.
    largest : Size
        Upper bounds of the sizes; with `static` the size itself.
    static : bool, default False
        Whether the program runs at that one size only.

    Returns
    -------
    executorch.exir.ExecutorchProgramManager
    """
    from executorch.exir import to_edge_transform_and_lower

    example = model.input(largest if static else tuple(map(min, model.example, largest)))
    shapes = None if static else model.dynamic_shapes(largest)
    with quiet(), torch.no_grad():
        program = torch.export.export(model.module, (example,), dynamic_shapes=shapes)
        return to_edge_transform_and_lower(program, partitioner=model.partitioners()).to_executorch()


def stock_plan(model: DemoModel) -> StockPlan:
    """Plan a model, bounded at its largest size, with the stock planner."""
    largest = model.sizes[-1]
    plans = export_stock(model, largest).executorch_program.execution_plan
    planned = sum(size for plan in plans for size in plan.non_const_buffer_sizes)
    return StockPlan(model.name, largest, planned)


@contextmanager
def planned_beside(names: Sequence[str]) -> Iterator[Iterator[StockPlan]]:
    """Plan models in a process of their own while the block does something else.

    Yields
    ------
    iterator of StockPlan
        Waits for the next model's plan; raises Error if the process fails. The process ends with the block.
    """
    command = [sys.executable, "-m", "etarena.demo.stock", *names]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield _read_plans(process, process.stdout, log)
        finally:
            process.kill()


def _read_plans(process: "subprocess.Popen[str]", stdout: IO[str], log: IO[str]) -> Iterator[StockPlan]:
    for line in stdout:
        fields = json.loads(line)
        yield StockPlan(fields["name"], tuple(fields["largest"]), fields["planned_bytes"])
    if process.wait():
        log.seek(0)
        lines = log.read().strip().splitlines() or [f"exit code {process.returncode}"]
        raise Error(f"the stock exports of the demo failed: {lines[-1]}")


def main(names: Sequence[str]) -> None:
    """Print the stock plans of the named models."""
    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # nothing else may get between the answers
        for name in names:
            print(json.dumps(asdict(stock_plan(make(name)))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
