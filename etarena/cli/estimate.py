"""``etarena estimate``: the memory of a model at sizes nobody has run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..allocator.errors import Error, InputError, ShapeError
from ..report.units import bytes_text
from .command import Answer, Command, step
from .dynamic import FORMS, dynamic_shapes
from .source import Source, load_source
from .sweep import named_sizes, swept_sizes
from .units import SHAPE

if TYPE_CHECKING:
    from ..propagation.memory import MethodMemory
    from ..propagation.predictors import Predictor

PICTURES = (".png", ".svg", ".pdf", ".html")


@click.command(cls=Command)
@click.argument("model")
@click.option("--shape", "shapes", type=SHAPE, multiple=True, help="Shape of each tensor input in turn.")
@click.option(
    "--size", "sizes", multiple=True, metavar="NAME=N", help="Number of a symbol; of one that data tells, too."
)
@click.option("--method", "name", default=None, help="Only this method (default: all).")
@click.option(
    "--device-map",
    "places",
    multiple=True,
    metavar="NAME=DEVICE",
    help="Device of a submodule, parameter or input ('=cuda:0' is the whole model), for the model as eager PyTorch "
    "runs it. Repeatable.",
)
@click.option(
    "--dynamic", "dynamic", multiple=True, metavar="SPEC", help=f"A dimension that may vary: {FORMS}. Repeatable."
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=START:STOP:STEP",
    help="Estimate a range of sizes; 'h,w=64:512:64' changes both together. Repeatable: every combination.",
)
@click.option(
    "--plot",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw memory over the first size that is swept, to a .png, .svg, .pdf or .html file.",
)
def estimate(
    model: str,
    shapes: tuple[tuple[int, ...], ...],
    sizes: tuple[str, ...],
    name: str | None,
    places: tuple[str, ...],
    dynamic: tuple[str, ...],
    sweeps: tuple[str, ...],
    picture: Path | None,
) -> Answer:
    """Predict the memory of MODEL without running it.

    MODEL is a .pte of 'etarena export', or what that command takes: a .pt2 archive, or MODULE:CALLABLE or
    FILE.py:CALLABLE that returns (model, args[, kwargs[, dynamic_shapes]]). Without --device-map the answer is about
    the program that 'etarena export' makes of it, with --device-map about the model as eager PyTorch runs it.
    """
    if picture is not None and not sweeps:
        raise click.UsageError("--plot draws memory over sizes: add --sweep NAME=START:STOP:STEP")
    if picture is not None and picture.suffix not in PICTURES:
        raise click.UsageError(f"--plot writes {', '.join(PICTURES)}, not {picture.name!r}")
    predictors = _predictors(model, _device_map(places), dynamic)
    chosen = [one for one in predictors if name in (None, one.name)]
    if not chosen:
        raise click.UsageError(f"there is no method {name!r}, only {', '.join(one.name for one in predictors)}")
    points = swept_sizes(sweeps, list(dict.fromkeys(symbol for one in chosen for symbol in one.symbols)))
    try:
        found, refused = _estimates(chosen, list(shapes), named_sizes(sizes), points)
    except ShapeError as error:
        if Path(model).suffix == ".pte" or dynamic:
            raise
        raise ShapeError(f"{error}; sizes that may vary are named with --dynamic, such as --dynamic all") from error
    data: dict[str, Any] = {"model": model, "estimates": list(map(_plain, found))}
    if refused:
        data["refused"] = refused
    if picture is not None:
        data["plot"] = str(_draw(model, found, next(iter(points[0])), picture))
    return Answer(data, lambda console: _show(console, data))


def _device_map(texts: Sequence[str]) -> dict[str, str] | None:
    places: dict[str, str] = {}
    for text in texts:
        name, equals, device = text.rpartition("=")
        if not equals or not device:
            raise click.UsageError(f"--device-map {text!r} is not NAME=DEVICE, such as 'layers.0=cuda:0' or '=cpu'")
        if name in places:
            raise click.UsageError(f"--device-map gives {name!r} twice")
        places[name] = device
    return places or None


def _predictors(model: str, places: dict[str, str] | None, dynamic: Sequence[str]) -> "list[Predictor]":
    from ..propagation.predictors import program_predictors

    if Path(model).suffix == ".pte":
        if places or dynamic:
            raise click.UsageError("the devices and sizes of a .pte are fixed: leave --device-map and --dynamic out")
        try:
            with step(f"Reading {model}"):
                return [*program_predictors(model)]
        except InputError as error:
            raise click.UsageError(f"{error}: 'etarena run' says what it takes") from error
    with step(f"Loading {model}"):
        source = load_source(model)
    if dynamic and source.exported:
        raise click.UsageError("--dynamic needs a model: the shapes of a .pt2 are fixed when it is made")
    shapes: Any = source.dynamic_shapes
    if dynamic:
        shapes = dynamic_shapes(source.model, source.args, source.kwargs, list(dynamic))
    if places is None:
        with step("Exporting"):
            return [*program_predictors(_exported(source, shapes))]
    with step("Propagating"):
        return [_propagated(source, shapes, places)]


def _exported(source: Source, shapes: Any) -> bytes:
    from ..exporter import export

    if source.exported:
        return export(source.model).buffer
    return export(source.model, source.args, source.kwargs or None, shapes).buffer


def _propagated(source: Source, shapes: Any, places: dict[str, str]) -> "Predictor":
    from ..propagation.predictors import EagerPredictor
    from ..propagation.propagator import propagate

    if source.exported:
        return EagerPredictor(propagate(source.model, device_map=places))
    return EagerPredictor(propagate(source.model, source.args, source.kwargs, device_map=places, dynamic_shapes=shapes))


def _estimates(
    chosen: "Sequence[Predictor]",
    shapes: list[tuple[int, ...]],
    sizes: dict[str, int],
    points: list[dict[str, int]],
) -> "tuple[list[MethodMemory], dict[str, str]]":
    """What each method needs at each point, and why others do not take these sizes."""
    found: list[MethodMemory] = []
    refused: dict[str, Error] = {}
    for one in chosen:
        try:
            given = _agreed(one.sizes_for(shapes) if shapes else {}, sizes)
            found += [one.memory({**given, **_known(one, point)}) for point in points or [{}]]
        except Error as error:
            refused[one.name] = error
    if not found:
        raise next(iter(refused.values()))
    return found, {name: str(error) for name, error in refused.items()}


def _agreed(shaped: dict[str, int], sizes: dict[str, int]) -> dict[str, int]:
    """The numbers that shapes give and those given by name, where they say the same."""
    for name in shaped.keys() & sizes.keys():
        if shaped[name] != sizes[name]:
            raise InputError(f"--size says that {name} is {sizes[name]}, but the shapes make it {shaped[name]}")
    return shaped | sizes


def _known(one: "Predictor", point: dict[str, int]) -> dict[str, int]:
    known = {name: number for name, number in point.items() if name in one.symbols}
    if not known and point:
        raise InputError(f"method {one.name!r} has none of the swept sizes")
    return known


def _plain(found: "MethodMemory") -> dict[str, Any]:
    return {
        "method": found.method,
        "sizes": found.sizes,
        "devices": [dict(vars(region)) for region in found.regions],
        "input_bytes": found.input_bytes,
        "output_bytes": found.output_bytes,
        "state_bytes": found.state_bytes,
        "left_out": list(found.left_out),
    }


def _draw(model: str, found: "Sequence[MethodMemory]", axis: str, picture: Path) -> Path:
    from ..report.sweep import SweepLine, draw_sweep

    lines: dict[str, SweepLine] = {}
    for one in found:
        if axis not in one.sizes:
            continue
        others = ", ".join(f"{name} {number}" for name, number in one.sizes.items() if _is_other(found, name, axis))
        for region in one.regions:
            label = ", ".join(filter(None, (one.method, region.device, others)))
            line = lines.setdefault(label, SweepLine(label, [], []))
            line.sizes.append(one.sizes[axis])
            line.nbytes.append(region.peak)
    with step(f"Drawing {picture}"):
        draw_sweep(picture, list(lines.values()), title=Path(model).name, axis=axis)
    return picture


def _is_other(found: "Sequence[MethodMemory]", name: str, axis: str) -> bool:
    """Whether a size varies in its own way, and so needs lines of its own."""
    pairs = [(one.sizes[axis], one.sizes[name]) for one in found if {name, axis} <= set(one.sizes)]
    return len({b for _, b in pairs}) > 1 and len(set(pairs)) > len({a for a, _ in pairs})


def _show(console: Console, data: dict[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    heads = ("method", "sizes", "device", "activations", "lower bound", "parameters", "inputs", "outputs", "state")
    for head in heads:
        table.add_column(head, justify="left" if head in heads[:3] else "right")
    for entry in data["estimates"]:
        for place, device in enumerate(entry["devices"]):
            table.add_row(*map(escape, _row(entry, device, first=place == 0)))
    console.print(table)
    for text in dict.fromkeys(text for entry in data["estimates"] for text in entry["left_out"]):
        console.print(f"not counted: {text}, which only the runtime knows", markup=False)
    for method, why in data.get("refused", {}).items():
        console.print(f"method {method} does not take these sizes: {why}", markup=False)
    if "plot" in data:
        console.print(f"plot written to {data['plot']}", markup=False)


def _row(entry: dict[str, Any], device: dict[str, Any], *, first: bool) -> tuple[str, ...]:
    sizes = ", ".join(f"{name} = {number}" for name, number in entry["sizes"].items()) or "fixed"
    own = (_text(device["peak"]), _text(device["lower_bound"]), _text(device["parameter_bytes"], "in the file"))
    if not first:
        return "", "", device["device"], *own, "", "", ""
    whole = (
        _text(entry["input_bytes"]),
        _text(entry["output_bytes"], "in activations"),
        _text(entry["state_bytes"], "in parameters"),
    )
    return entry["method"], sizes, device["device"], *own, *whole


def _text(nbytes: int | None, elsewhere: str = "") -> str:
    """Bytes as people read them, or where they are counted."""
    return elsewhere if nbytes is None else bytes_text(nbytes)
