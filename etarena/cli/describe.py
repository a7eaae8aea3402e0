"""What `describe_method` says about a method, shown to a person."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .units import shape_text


def print_method(console: Console, method: dict[str, Any]) -> None:
    """Show what `describe_method` returned."""
    console.print(f"method [bold]{escape(method['name'])}[/]", highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    rows = [("input", item["name"], _kind_text(item)) for item in method["inputs"]]
    rows += [("output", str(position), _kind_text(item)) for position, item in enumerate(method["outputs"])]
    rows += [("state", item["name"], _kind_text(item)) for item in method["state"]]
    for symbol in method["symbols"]:
        high = "unbounded" if symbol["max"] is None else f"at most {symbol['max']}"
        rows.append(("symbol", symbol["name"], f"at least {symbol['min']}, {high}"))
    for entry in method["told"]:
        rows.append(("told", entry["symbol"], f"{entry['how']} of {entry['by']} at instruction {entry['instruction']}"))
    rows += [("guard", "", text) for text in method["guards"]]
    for backend, calls in method["delegates"].items():
        rows.append(("delegate", backend, f"{calls} call" + "s" * (calls != 1)))
    rows.append(("program", "", f"{method['instructions']} instructions, {method['planned_buffers']} planned buffers"))
    for row in rows:
        table.add_row(*map(escape, row))  # shapes such as [rows, 3] are no markup
    console.print(table)


def _kind_text(item: dict[str, Any]) -> str:
    if "shape" in item:
        return f"{item['dtype']} {shape_text(item['shape'])}"
    detail = item.get("symbol", item.get("size", item.get("value")))
    return item["kind"] if detail is None else f"{item['kind']} = {detail}"
