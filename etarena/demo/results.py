"""The demo's outcome: figures as plain data, as tables, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..allocator.errors import Error
from ..report.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from .models import DemoModel, Size
    from .runs import SizeResult

__all__ = ["DemoResult", "ModelResult", "size_text"]

ERROR_LIMIT = 1e-4
RATIO_LIMIT = 1.03


def size_text(model: DemoModel, size: Size) -> str:
    """A size as people write it: ``480 x 640`` or ``200 tokens``."""
    return " x ".join(map(str, size)) if model.unit == "px" else f"{size[0]} {'token' if size[0] == 1 else 'tokens'}"


@dataclass
class ModelResult:
    """One model at all its sizes.

    Attributes
    ----------
    model
        The model.
    file_bytes
        Size of the exported program.
    export_seconds
        How long its export took.
    sizes
        The results, growing.
    stock_bytes
        What stock ExecuTorch reserves for the same model bounded at the largest of `DemoModel.sizes`, in bytes.
    """

    model: DemoModel
    file_bytes: int
    export_seconds: float
    sizes: list[SizeResult]
    stock_bytes: int = 0

    def stock_at(self, one: SizeResult) -> int:
        """Bytes that stock ExecuTorch takes at a size: its plan, and the workspace that XNNPACK allocates beside it."""
        return self.stock_bytes + one.scratch_bytes


@dataclass
class DemoResult:
    """All models, and the files that were written.

    Attributes
    ----------
    models
        One result a model.
    seconds
        Duration of the whole demo.
    picture, page, figures
        Paths of the PNG, the HTML page and the JSON file.
    """

    models: list[ModelResult]
    seconds: float = 0.0
    picture: Path = field(default_factory=Path)
    page: Path = field(default_factory=Path)
    figures: Path = field(default_factory=Path)

    @property
    def failures(self) -> list[str]:
        """One line for every figure outside its limit; empty when all is well."""
        return [line for result in self.models for size in result.sizes for line in _faults(result.model, size)]

    def check(self) -> None:
        """Raise Error if a figure is outside its limit."""
        if self.failures:
            raise Error("; ".join(self.failures))

    def data(self) -> dict[str, Any]:
        """The figures as plain data: bytes, nanoseconds, seconds."""
        return {
            "seconds": round(self.seconds, 1),
            "failures": self.failures,
            "picture": str(self.picture),
            "page": str(self.page),
            "models": [_model_data(result) for result in self.models],
        }

    def show(self, console: Console) -> None:
        """Print the table and where the files are."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, title="One file a model, every size from one arena", title_justify="left")
        for position, head in enumerate(COLUMNS):
            table.add_column(head, justify="left" if position < 2 else "right", no_wrap=position < 2)
        for result in self.models:
            for row in rows(result):
                table.add_row(*row)
            table.add_section()
        console.print(table)
        console.print(NOTE, markup=False)
        for what, path in (("memory map", self.picture), ("page", self.page), ("figures", self.figures)):
            console.print(f"{what:>10}: {path}", markup=False)
        console.print(f"{self.seconds:.0f} s in all")
        for failure in self.failures:
            console.print(f"[red]outside its limit:[/red] {escape(failure)}")


COLUMNS = (
    "model",
    "input",
    "error",
    "arena",
    "lower bound",
    "ratio",
    "all memory",
    "stock takes",
    "plan",
    "run",
)
NOTE = (
    "error: largest difference from eager PyTorch / its largest value.  all memory: arena, input and results.  "
    "stock takes: ExecuTorch's own plan, bounded at the model's largest input, and XNNPACK's workspace at this one."
)


def rows(result: ModelResult) -> list[tuple[str, ...]]:
    """The lines of a model in the table, in the order of `COLUMNS`."""
    return [_row(result, one, first=position == 0) for position, one in enumerate(result.sizes)]


def _row(result: ModelResult, one: SizeResult, *, first: bool) -> tuple[str, ...]:
    model, plan = result.model, one.plan
    return (
        f"{model.title} ({model.backend})" if first else "",
        size_text(model, one.size),
        "planned only" if one.error is None else f"{one.error:.1e}",
        bytes_text(plan.peak),
        bytes_text(plan.lower_bound),
        f"{plan.ratio:.4f}" if plan.buffers else "",  # all in one delegate: nothing to compare
        bytes_text(one.total_bytes),
        bytes_text(result.stock_at(one)),
        f"{one.plan_ns / 1e3:.0f} us",
        "" if one.seconds is None else f"{one.seconds * 1e3:.1f} ms",
    )


def _faults(model: DemoModel, one: SizeResult) -> Iterator[str]:
    where = f"{model.title} at {size_text(model, one.size)}"
    if one.error is not None and not one.error <= ERROR_LIMIT:
        yield f"{where}: error {one.error:.1e} is above {ERROR_LIMIT:.0e}"
    if one.plan.ratio > RATIO_LIMIT:
        yield f"{where}: the arena is {one.plan.ratio:.3f} x its lower bound, above {RATIO_LIMIT}"


def _model_data(result: ModelResult) -> dict[str, Any]:
    return {
        "name": result.model.name,
        "title": result.model.title,
        "backend": result.model.backend,
        "file_bytes": result.file_bytes,
        "export_seconds": round(result.export_seconds, 2),
        "stock_bytes": result.stock_bytes,
        "stock_bound": list(result.model.sizes[-1]),
        "sizes": [
            {
                "size": list(one.size),
                "error": one.error,
                "arena_bytes": one.plan.peak,
                "lower_bound_bytes": one.plan.lower_bound,
                "ratio": one.plan.ratio,
                "output_bytes": one.plan.output_bytes,
                "total_bytes": one.total_bytes,
                "stock_bytes": result.stock_at(one),
                "buffers": len(one.plan.buffers),
                "plan_ns": one.plan_ns,
                "run_seconds": one.run_seconds,
            }
            for one in result.sizes
        ],
    }
