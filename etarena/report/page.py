"""The memory map as one HTML page that needs no network: zoom, tooltips, a selector of models and sizes."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..device.dtypes import dtype_name
from .entries import MapEntry, checked, live_bytes
from .families import SHOWN, family_of_buffer
from .growth import Growth, growth_data
from .optional import optional

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Table", "write_page"]


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes
    ----------
    caption : str
        Its heading.
    columns : sequence of str
        Column heads.
    rows : sequence of sequences of str
        Cells as text, one for each column.
    note : str, default ""
        A sentence below it.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def write_page(
    path: Path,
    entries: Sequence[MapEntry],
    title: str = "Memory map",
    *,
    growth: Sequence[Growth] = (),
    tables: Sequence[Table] = (),
    lead: str = "",
) -> None:
    """Write one self-contained page.

    Parameters
    ----------
    path : Path
        The page; an existing file is replaced.
    entries : sequence of MapEntry
        The plans one can select, by group and then by label.
    title : str, default "Memory map"
        Heading and window title.
    growth : sequence of Growth
        Lines of a chart of memory against the input's size, below the map.
    tables : sequence of Table
        Shown below the charts.
    lead : str, default ""
        A paragraph below the heading.

    Raises
    ------
    InputError
        If there are no entries, or two cannot be told apart.
    Error
        If plotly is not installed.
    """
    shown = checked(entries)
    folder = resources.files(__package__)
    fields = {
        "TITLE": html.escape(title),
        "LEAD": html.escape(lead),
        "STYLE": (folder / "page.css").read_text(encoding="utf-8"),
        "TABLES": "\n".join(_table(table) for table in tables),
        "DATA": _script_safe(json.dumps(_page_data(shown, growth), separators=(",", ":"))),
        "CODE": (folder / "page.js").read_text(encoding="utf-8"),
        "PLOTLY": optional("plotly.offline").get_plotlyjs(),
    }
    before, *parts = (folder / "page.html").read_text(encoding="utf-8").split("{{")
    pieces = [before]
    for part in parts:  # one pass: what is filled in is never searched for fields
        name, _, after = part.partition("}}")
        pieces += [fields[name], after]
    path.write_text("".join(pieces), encoding="utf-8")


def _script_safe(text: str) -> str:
    """JSON that may stand inside a script element whatever its strings say."""
    return text.replace("<", "\\u003c")


def _page_data(entries: Sequence[MapEntry], growth: Sequence[Growth]) -> dict[str, Any]:
    return {
        "families": [{"name": family.name, "colour": family.colour} for family in SHOWN],
        "plans": [_plan_data(entry) for entry in entries],
        "growth": growth_data(growth),
    }


def _plan_data(entry: MapEntry) -> dict[str, Any]:
    plan = entry.plan
    return {
        "group": entry.group,
        "label": entry.label,
        "note": entry.note,
        "peak": plan.peak,
        "bound": plan.lower_bound,
        "output": plan.output_bytes,
        "planned": plan.plan_ns,
        "instructions": list(plan.instructions),
        "live": live_bytes(plan),
        "buffers": [
            {
                "name": buffer.name,
                "operator": buffer.definition,
                "family": SHOWN.index(family_of_buffer(buffer)),
                "type": f"{dtype_name(buffer.dtype)}{list(buffer.shape)}",
                "offset": buffer.offset,
                "bytes": buffer.nbytes,
                "first": buffer.first,
                "last": buffer.last,
            }
            for buffer in plan.buffers
        ],
    }


def _table(table: Table) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    head, body = line("th", table.columns), "\n".join(line("td", row) for row in table.rows)
    note = f"<p class='note'>{html.escape(table.note)}</p>" if table.note else ""
    return (
        f"<section><h2>{html.escape(table.caption)}</h2><div class='scroll'><table><thead>{head}</thead>"
        f"<tbody>{body}</tbody></table></div>{note}</section>"
    )
