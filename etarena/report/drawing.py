"""The memory map as a still picture: PNG, SVG or PDF, drawn with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entries import MapEntry, checked, live_bytes
from .families import SHOWN, Family, family_of_buffer
from .growth import Growth, draw_growth
from .optional import optional
from .units import bytes_text, unit_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["draw", "headings"]

_PANEL = (7.6, 4.6)  # inches
_INK = "#22262b"
_FAINT = "#8a9099"


def draw(
    path: Path,
    entries: Sequence[MapEntry],
    title: str = "Memory map",
    *,
    growth: Sequence[Growth] = (),
    dpi: int = 150,
) -> None:
    """Draw plans side by side: instructions to the right, addresses upwards, one rectangle a buffer.

    Parameters
    ----------
    path : Path
        Where to; the suffix decides the format (``.png``, ``.svg``, ``.pdf``). An existing file is replaced.
    entries : sequence of MapEntry
        One panel each, two in a row.
    title : str, default "Memory map"
        Above all panels.
    growth : sequence of Growth
        Lines of one more panel: how memory follows the input's size.
    dpi : int, default 150
        Pixels per inch of a PNG.

    Raises
    ------
    InputError
        If there are no entries.
    Error
        If matplotlib is not installed.
    """
    panels = checked(entries)
    count = len(panels) + bool(growth)
    columns = min(2, count)
    rows = -(-count // columns)
    figure = optional("matplotlib.figure").Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows + 1.0))
    figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.12)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, entry in zip(axes.flat, panels, strict=False):
        _panel(axis, entry)
    if growth:
        _growth_panel(axes.flat[len(panels)], growth)
    for axis in list(axes.flat)[count:]:
        axis.set_visible(False)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=_INK, parse_math=False)
    _legend(figure, panels)
    figure.savefig(path, dpi=dpi, facecolor="white")


def _panel(axis: Any, entry: MapEntry) -> None:
    plan = entry.plan
    unit, scale = unit_for(plan.peak)
    collections = optional("matplotlib.collections")
    rectangles = [
        [(b.first, b.offset / scale), (b.last, b.offset / scale), (b.last, top), (b.first, top)]
        for b in plan.buffers
        for top in [(b.offset + b.nbytes) / scale]
    ]
    colours = [family_of_buffer(buffer).colour for buffer in plan.buffers]
    edge = 0.6 if len(rectangles) < 120 else 0.25
    axis.add_collection(
        collections.PolyCollection(rectangles, facecolors=colours, edgecolors="white", linewidths=edge, zorder=2)
    )
    live = [count / scale for count in live_bytes(plan)]
    axis.stairs(live, range(len(live) + 1), color=_INK, linewidth=1.1, zorder=4, baseline=None)
    axis.axhline(plan.peak / scale, color="#c0392b", linewidth=1.1, zorder=3)
    axis.axhline(plan.lower_bound / scale, color="#1b7f4d", linewidth=1.1, linestyle=(0, (5, 3)), zorder=3)
    axis.set_xlim(0, max(len(live), 1))
    axis.set_ylim(0, max(plan.peak / scale, 1e-9) * 1.06)
    _words(axis, entry, unit)


def _words(axis: Any, entry: MapEntry, unit: str) -> None:
    plan = entry.plan
    figures = f"peak {bytes_text(plan.peak)}, {plan.ratio:.3f} x lower bound, {len(plan.buffers)} buffers"
    headings(axis, f"{entry.group}, {entry.label}", figures, "instruction", f"address from the arena's base ({unit})")


def _growth_panel(axis: Any, growth: Sequence[Growth]) -> None:
    draw_growth(axis, growth)
    words = "arena, input and results; dashed: stock ExecuTorch, planned for the largest size"
    headings(axis, "Memory follows the input", words, "pixels or tokens", "")


def headings(axis: Any, title: str, subtitle: str, below: str, beside: str) -> None:
    """Give a chart its words, which may be names of files, and the look that all charts share."""
    axis.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_INK, pad=20, parse_math=False)
    axis.text(0, 1.025, subtitle, transform=axis.transAxes, fontsize=9, color=_FAINT, parse_math=False)
    axis.set_xlabel(below, fontsize=9, color=_INK, parse_math=False)
    axis.set_ylabel(beside, fontsize=9, color=_INK, parse_math=False)
    axis.tick_params(labelsize=8, colors=_FAINT)
    axis.set_axisbelow(True)
    axis.grid(axis="y", color="#e6e8eb", linewidth=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color("#c7cbd1")


def _used_families(entries: Sequence[MapEntry]) -> list[Family]:
    used = {family_of_buffer(buffer) for entry in entries for buffer in entry.plan.buffers}
    return [family for family in SHOWN if family in used]


def _legend(figure: Any, entries: Sequence[MapEntry]) -> None:
    patches, lines = optional("matplotlib.patches"), optional("matplotlib.lines")
    handles = [patches.Patch(facecolor=family.colour, label=family.name) for family in _used_families(entries)]
    handles += [
        lines.Line2D([], [], color=_INK, linewidth=1.4, label="live bytes"),
        lines.Line2D([], [], color="#c0392b", linewidth=1.4, label="peak"),
        lines.Line2D([], [], color="#1b7f4d", linewidth=1.4, linestyle=(0, (5, 3)), label="lower bound"),
    ]
    columns = min(len(handles), 6 if len(entries) > 1 else 4)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
