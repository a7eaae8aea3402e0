"""Numbers as people read and write them: bytes, nanoseconds, tensor shapes."""

import re

import click


def bytes_text(count: int) -> str:
    """Return a byte count with a decimal unit and three significant digits, e.g. ``1.06 GB``."""
    if count < 1000:
        return f"{count} B"
    value, units = count / 1000, ["kB", "MB", "GB", "TB", "PB", "EB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def time_text(nanoseconds: float) -> str:
    """Return a duration with the unit that suits it and three significant digits, e.g. ``3.5 ms``."""
    value = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} s"


def shape_text(shape: tuple[object, ...] | list[object]) -> str:
    """Return numbers as ``1x3x224x224``, sizes with symbols as ``[1, 3, h, 2*w]``, and no dimensions as ``scalar``."""
    if all(str(size).isdigit() for size in shape):
        return "x".join(map(str, shape)) or "scalar"
    return f"[{', '.join(map(str, shape))}]"


class ShapeType(click.ParamType[tuple[int, ...]]):
    """A shape on the command line: ``1x3x224x224``, or ``scalar`` for a tensor without dimensions."""

    name = "shape"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse one shape."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip().lower()
        if text == "scalar":
            return ()
        if not re.fullmatch(r"\d+([x,]\d+)*", text):
            self.fail(f"{value!r} is not a shape: write sizes as 1x3x224x224, or 'scalar'", param, ctx)
        return tuple(int(size) for size in re.split("[x,]", text))


SHAPE = ShapeType()
