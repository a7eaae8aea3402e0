"""``etarena inspect``: what a .pte file takes, gives and needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..description import describe_method
from ..device.dtypes import dtype_name
from ..report.units import bytes_text
from .command import Answer, Command, step
from .describe import print_method
from .inputs import plan_shapes
from .units import SHAPE, shape_text

LARGEST_SHOWN = 10
PICTURES = (".png", ".svg", ".html")


@click.command(cls=Command)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--method", "name", default=None, help="Only this method (default: all; with --shape: the first).")
@click.option(
    "--shape", "shapes", type=SHAPE, multiple=True, help="Shape of each tensor input in turn; plans for them."
)
@click.option(
    "--map",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the plan for the given shapes, time x address, to a .png, .svg or .html file.",
)
def inspect(model: Path, name: str | None, shapes: tuple[tuple[int, ...], ...], picture: Path | None) -> Answer:
    """Show the inputs, symbols, state, delegates and, for given shapes, the memory plan of MODEL."""
    if picture is not None and not shapes:
        raise click.UsageError("--map draws the plan for given shapes: add --shape for each tensor input")
    if picture is not None and picture.suffix not in PICTURES:
        raise click.UsageError(f"--map writes {', '.join(PICTURES)}, not {picture.name!r}")
    import etarena

    with step(f"Loading {model}"):
        program = etarena.load(model)
        names = [name] if name else program.method_names
        methods = {each: program.method(each) for each in (names[:1] if shapes else names)}
    data: dict[str, Any] = {
        "path": str(model),
        "bytes": model.stat().st_size,
        "methods": [_describe(each, method) for each, method in methods.items()],
    }
    if shapes:
        plan = _plan(next(iter(methods.values())), shapes)
        data["plan"] = describe_plan(plan)
        if picture is not None:
            data["map"] = str(_draw(model, plan, picture))
    return Answer(data, lambda console: _show(console, data))


def _plan(method: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
    if method.section is None:
        raise click.UsageError("the file was planned ahead of time: there is no plan for other shapes")
    return method.plan_for(plan_shapes(method.section, shapes))


def _describe(name: str, method: Any) -> dict[str, Any]:
    if method.section is None:
        return {"name": name, "planned": "ahead of time"}
    return {**describe_method(method.section), "planned": "at run time"}


def describe_plan(plan: Any) -> dict[str, Any]:
    """Return a `MemoryPlan` as plain data."""
    return {
        "shapes": [shape if isinstance(shape, int) else list(shape) for shape in plan.shapes],
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "buffers": [
            {
                "name": buffer.name,
                "offset": buffer.offset,
                "nbytes": buffer.nbytes,
                "first": buffer.first,
                "last": buffer.last,
                "dtype": dtype_name(buffer.dtype),
                "shape": list(buffer.shape),
                "definition": buffer.definition,
                "kind": buffer.kind,
                "delegate": buffer.delegate,
            }
            for buffer in plan.buffers
        ],
    }


def _draw(model: Path, plan: Any, picture: Path) -> Path:
    from ..report.drawing import draw
    from ..report.entries import MapEntry
    from ..report.page import write_page

    entry = MapEntry(f"{model.name}, {plan.method}", _shapes_text(plan.shapes), plan)
    with step(f"Drawing {picture}"):
        (write_page if picture.suffix == ".html" else draw)(picture, [entry])
    return picture


def _shapes_text(shapes: Sequence[Any]) -> str:
    return ", ".join(str(shape) if isinstance(shape, int) else shape_text(shape) for shape in shapes)


def _show(console: Console, data: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(data['path'])}[/] ({bytes_text(data['bytes'])})")
    for method in data["methods"]:
        if method["planned"] == "ahead of time":
            console.print(f"method [bold]{escape(method['name'])}[/]: planned ahead of time, for the stock runtime")
        else:
            print_method(console, method)
    if "plan" in data:
        _show_plan(console, data["plan"])
    if "map" in data:
        console.print(f"memory map written to {data['map']}", markup=False)


def _show_plan(console: Console, plan: dict[str, Any]) -> None:
    ratio = plan["peak"] / plan["lower_bound"] if plan["lower_bound"] else 1.0
    console.print(
        f"plan for {_shapes_text(plan['shapes'])}: {bytes_text(plan['peak'])} of arena "
        f"for {len(plan['buffers'])} buffers, {ratio:.3f} x the lower bound of {bytes_text(plan['lower_bound'])}",
        markup=False,
    )
    largest = sorted(plan["buffers"], key=lambda buffer: -buffer["nbytes"])[:LARGEST_SHOWN]
    table = Table(box=None, padding=(0, 2, 0, 2), title_justify="left", title=f"{len(largest)} largest buffers")
    for column in ("buffer", "bytes", "offset", "live", "shape", "defined by"):
        table.add_column(column, justify="right" if column in ("bytes", "offset") else "left")
    for buffer in largest:
        live = f"{buffer['first']}-{buffer['last']}"
        what = f"{buffer['dtype']} {shape_text(buffer['shape'])}"
        nbytes, offset = bytes_text(buffer["nbytes"]), f"{buffer['offset']:#x}"
        table.add_row(*map(escape, (buffer["name"], nbytes, offset, live, what, buffer["definition"])))
    console.print(table)
