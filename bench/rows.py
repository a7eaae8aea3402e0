"""Rows of a table that are measured in processes of their own and kept in a file from one run to the next."""

import json
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from etarena.allocator.errors import Error

__all__ = ["keep_rows", "last_line", "measured_apart", "printed"]

Row = TypeVar("Row")
"""A dataclass whose fields JSON can say."""


def printed(row: Any) -> str:
    """A row as a line of JSON, for another process to read."""
    return json.dumps(asdict(row))


def keep_rows(
    rows: Sequence[Row], path: Path, kind: type[Row], key: Callable[[Row], Hashable], order: Iterable[Hashable]
) -> list[Row]:
    """Replace rows in a file.

    Parameters
    ----------
    rows : sequence of Row
        The new rows.
    path : Path
        A file of JSON, made with its folder if it is missing.
    kind : type
        The dataclass of the rows.
    key : callable
        What tells one row from another.
    order : iterable
        Every key there can be, in the order of the table; rows of others are dropped.

    Returns
    -------
    list of Row
        All that is in the file now.
    """
    entries = json.loads(path.read_text()) if path.exists() else []
    kept = {key(row): row for row in [*(kind(**entry) for entry in entries), *rows]}
    known = [kept[one] for one in order if one in kept]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in known], indent=1))  # type: ignore[call-overload]  # dataclasses
    return known


def last_line(module: str, *arguments: str, seconds: float) -> str:
    """The last line that a module prints in a process of its own.

    Raises
    ------
    Error
        If it takes longer than `seconds` or fails; the last line of its complaints is in the message.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Error(f"took more than {seconds} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = next(reversed(done.stderr.strip().splitlines()), "")
        raise Error(f"the process ended with {done.returncode}: {last}")
    return lines[-1]


def measured_apart(row: Row, module: str, *arguments: str, seconds: float) -> Row:
    """The row that a module prints in a process of its own.

    Parameters
    ----------
    row : Row
        What there is without it; a crash, an error or too much time is its `failure`.
    module, arguments, seconds
        As for `last_line`.
    """
    try:
        return type(row)(**json.loads(last_line(module, *arguments, seconds=seconds)))
    except Error as error:
        return replace(row, failure=str(error))  # type: ignore[type-var]  # a dataclass
