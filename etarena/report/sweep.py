"""Memory over one size, as a chart."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..allocator.errors import InputError
from .drawing import headings
from .growth import COLOURS
from .optional import optional
from .units import bytes_text, unit_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["SweepLine", "draw_sweep"]


@dataclass(frozen=True)
class SweepLine:
    """One line of the chart.

    Attributes
    ----------
    name : str
        What the legend calls it.
    sizes : list of int
        Along the axis.
    nbytes : list of int
        Bytes at each size.
    """

    name: str
    sizes: list[int]
    nbytes: list[int]


def draw_sweep(path: Path, lines: Sequence[SweepLine], *, title: str, axis: str) -> None:
    """Draw memory over a size.

    Parameters
    ----------
    path : Path
        Where to: ``.png``, ``.svg`` or ``.pdf``, or ``.html`` for a page of its own with the figures below the chart.
    lines : sequence of SweepLine
        At least one.
    title : str
        Above the chart.
    axis : str
        Name of the size.

    Raises
    ------
    InputError
        If there are no lines.
    Error
        If matplotlib is not installed.
    """
    if not lines:
        raise InputError("a chart needs at least one line; got none")
    figure = optional("matplotlib.figure").Figure(figsize=(8.0, 4.8))
    figure.set_layout_engine("constrained")
    chart = figure.subplots()
    unit, scale = unit_for(max((nbytes for line in lines for nbytes in line.nbytes), default=1))
    for line, colour in zip(lines, COLOURS * len(lines), strict=False):
        heights = [nbytes / scale for nbytes in line.nbytes]
        chart.plot(line.sizes, heights, color=colour, marker="o", markersize=3, linewidth=1.5, label=line.name)
    chart.set_ylim(bottom=0)
    for text in chart.legend(fontsize=8, frameon=False, loc="upper left").get_texts():
        text.set_parse_math(False)
    headings(chart, title, "activations, predicted", axis, unit)
    if path.suffix != ".html":
        figure.savefig(path, dpi=150, facecolor="white")
        return
    picture = io.StringIO()
    figure.savefig(picture, format="svg", facecolor="white")
    svg = picture.getvalue()
    path.write_text(_page(title, svg[svg.index("<svg") :], lines, axis), encoding="utf-8")


def _page(title: str, svg: str, lines: Sequence[SweepLine], axis: str) -> str:
    heads = "".join(f"<th>{html.escape(text)}</th>" for text in (axis, "what", "bytes", ""))
    rows = [
        f"<tr><td>{size}</td><td>{html.escape(line.name)}</td><td>{nbytes}</td><td>{bytes_text(nbytes)}</td></tr>"
        for line in lines
        for size, nbytes in zip(line.sizes, line.nbytes, strict=True)
    ]
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title><style>"
        "body{font-family:sans-serif;margin:2rem;color:#22262b}td,th{text-align:right;padding:.1rem .8rem}"
        f"</style></head><body>{svg}<table><tr>{heads}</tr>{''.join(rows)}</table></body></html>"
    )
