"""``--size`` and ``--sweep``: sizes by the names of symbols, one number or a range of them."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import product

import click

__all__ = ["named_sizes", "swept_sizes"]

_NAME = r"[A-Za-z_][\w.]*"
_SIZE = re.compile(rf"({_NAME})=(\d+)")
_SWEEP = re.compile(rf"({_NAME}(?:,{_NAME})*)=(\d+):(\d+)(?::(\d+))?")
MOST_POINTS = 10_000


def named_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Read ``NAME=NUMBER`` texts.

    Raises
    ------
    click.UsageError
        A text is malformed, or a name comes twice.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        match = _SIZE.fullmatch(text)
        if match is None:
            raise click.UsageError(f"--size {text!r} is not NAME=NUMBER, such as 'height=480'")
        if match[1] in sizes:
            raise click.UsageError(f"--size gives {match[1]!r} twice")
        sizes[match[1]] = int(match[2])
    return sizes


def swept_sizes(texts: Sequence[str], known: Sequence[str]) -> list[dict[str, int]]:
    """Every combination of ``NAME[,NAME]=START:STOP[:STEP]`` texts; names in one text have the same number.

    Raises
    ------
    click.UsageError
        A text is malformed, a range is empty, a name is unknown or comes twice, or there are too many combinations.
    """
    axes: list[tuple[list[str], range]] = []
    seen: set[str] = set()
    for text in texts:
        match = _SWEEP.fullmatch(text)
        if match is None:
            raise click.UsageError(f"--sweep {text!r} is not NAME=START:STOP:STEP, such as 'height=64:512:64'")
        names = match[1].split(",")
        for name in names:
            if name not in known:
                raise click.UsageError(
                    f"--sweep {text!r}: no size is called {name!r}, only {', '.join(known) or 'none'}"
                )
            if name in seen:
                raise click.UsageError(f"--sweep gives {name!r} twice")
            seen.add(name)
        start, stop, step = int(match[2]), int(match[3]), int(match[4] or 1)
        if step == 0 or stop < start:
            raise click.UsageError(f"--sweep {text!r} is an empty range")
        axes.append((names, range(start, stop + 1, step)))
    points = math.prod((stop - start) // step + 1 for start, stop, step in map(_ends, axes)) if axes else 0
    if points > MOST_POINTS:
        raise click.UsageError(f"--sweep has {points} points, more than {MOST_POINTS}: give larger steps")
    return list(_merged(axes)) if axes else []


def _ends(axis: tuple[list[str], range]) -> tuple[int, int, int]:
    """Start, last and step: the length of a range beyond 64 bits cannot be asked for."""
    return axis[1].start, axis[1].stop - 1, axis[1].step


def _merged(axes: list[tuple[list[str], range]]) -> Iterator[dict[str, int]]:
    for numbers in product(*(steps for _, steps in axes)):
        yield {name: number for (names, _), number in zip(axes, numbers, strict=True) for name in names}
