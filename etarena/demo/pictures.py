"""The demo's pictures: the memory map as PNG, and the page."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ..report.drawing import draw
from ..report.entries import MapEntry
from ..report.growth import Growth
from ..report.page import Table, write_page
from .results import COLUMNS, NOTE, DemoResult, ModelResult, rows, size_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_pictures"]

TITLE = "Run-time memory plans of one arena"


def write_pictures(result: DemoResult, out: Path) -> None:
    """Write ``memory_map.png`` (each model at its largest size) and ``index.html`` (every model at every size).

    Both also show memory against the input's size. A model without planned buffers, all in one delegate, has no map.
    """
    result.picture, result.page = out / "memory_map.png", out / "index.html"
    mapped = [model for model in result.models if any(size.plan.buffers for size in model.sizes)]
    growth = [_growth(model) for model in result.models]
    draw(result.picture, [_entries(model)[-1] for model in mapped], TITLE, growth=growth)
    lead = (
        "Each model was exported once with every size unbounded and loaded once; then it ran at every size, growing, "
        "shrinking and growing again, with the arena filled with garbage before every run."
    )
    lines = [row for model in result.models for row in rows(model)]
    table = Table("Results", COLUMNS, lines, NOTE)
    entries = [entry for model in mapped for entry in _entries(model)]
    write_page(result.page, entries, TITLE, growth=growth, tables=[table], lead=lead)


def _entries(result: ModelResult) -> list[MapEntry]:
    model = result.model
    return [
        MapEntry(model.title, size_text(model, one.size), one.plan, f"{model.title} on {model.backend}.")
        for one in result.sizes
        if one.plan.buffers
    ]


def _growth(result: ModelResult) -> Growth:
    return Growth(
        f"{result.model.title} ({result.model.backend})",
        [prod(one.size) for one in result.sizes],
        [size_text(result.model, one.size) for one in result.sizes],
        [one.total_bytes for one in result.sizes],
        [result.stock_at(one) for one in result.sizes],
    )
