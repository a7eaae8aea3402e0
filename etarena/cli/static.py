"""What ``etarena export --memory static`` says of the file it made."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..report.units import bytes_text
from .command import Answer

if TYPE_CHECKING:
    from ..static.exported import StaticModel

__all__ = ["static_answer"]


def static_answer(output: Path, exported: "StaticModel") -> Answer:
    """The pools of every method, and in JSON everything that lies in them."""
    nbytes = len(exported.buffer)
    methods: list[dict[str, Any]] = [
        {"name": name, "plan": exported.plan(name).to_dict()} for name in exported.method_names
    ]
    data: dict[str, Any] = {"path": str(output), "bytes": nbytes, "memory": "static", "methods": methods}

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(str(output))}[/] ({bytes_text(nbytes)}), for the stock runtime")
        table = Table(
            "method", "memory id", "device", "planned", "lower bound", "values", box=None, padding=(0, 2, 0, 2)
        )
        for method in methods:
            for pool in method["plan"]["pools"]:
                inside = sum(value["memory_id"] == pool["memory_id"] for value in method["plan"]["values"])
                figures = (bytes_text(pool["nbytes"]), bytes_text(pool["lower_bound"]), str(inside))
                table.add_row(escape(method["name"]), str(pool["memory_id"]), pool["device"], *figures)
        console.print(table)

    return Answer(data, show)
