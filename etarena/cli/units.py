"""Numbers as people read and write them: durations and tensor shapes."""

import re

import click


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
