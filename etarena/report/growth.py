"""How the memory of a run follows the size of its input, beside what a fixed plan reserves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Growth", "draw_growth", "growth_data"]

COLOURS = ("#2f5d8a", "#d1722b", "#3d8b57", "#a8416e", "#7a62a8", "#8c6d31", "#4a9aa8", "#777d85")


@dataclass(frozen=True)
class Growth:
    """One line of the chart.

    Attributes
    ----------
    name : str
        The model.
    sizes : sequence of int
        Elements of each input: pixels, tokens.
    labels : sequence of str
        The same sizes as people write them.
    total : sequence of int
        Bytes of a run at each size.
    reserved : sequence of int
        Bytes that stock ExecuTorch takes at each size: a plan for the largest input, and its delegates' workspace.
    """

    name: str
    sizes: Sequence[int]
    labels: Sequence[str]
    total: Sequence[int]
    reserved: Sequence[int]


def draw_growth(axis: Any, lines: Sequence[Growth]) -> None:
    """Draw the chart into a matplotlib axis, both scales logarithmic."""
    for line, colour in zip(lines, COLOURS * len(lines), strict=False):
        axis.plot(line.sizes, line.total, color=colour, marker="o", markersize=3.2, linewidth=1.5, label=line.name)
        axis.plot(line.sizes, line.reserved, color=colour, linestyle=(0, (4, 3)), linewidth=1.1)
    axis.set_xscale("log")
    axis.set_yscale("log", base=2)
    low = min(min(line.total) for line in lines)
    high = max(max(*line.total, *line.reserved) for line in lines)
    ticks = [1 << exponent for exponent in range(10, 44, 4) if low / 2 <= 1 << exponent <= high * 2]
    axis.set_yticks(ticks, [bytes_text(tick) for tick in ticks])
    axis.minorticks_off()
    axis.legend(fontsize=8, frameon=False, loc="lower right")


def growth_data(lines: Sequence[Growth]) -> list[dict[str, Any]]:
    """The lines as the page's script reads them."""
    return [
        {
            "name": line.name,
            "colour": colour,
            "sizes": list(line.sizes),
            "labels": list(line.labels),
            "total": list(line.total),
            "reserved": list(line.reserved),
        }
        for line, colour in zip(lines, COLOURS * len(lines), strict=False)
    ]
