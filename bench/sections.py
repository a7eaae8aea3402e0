"""RESULTS.md in sections: each measurement replaces its own and leaves the others' figures alone."""

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["RESULTS", "merged", "table", "write_sections"]

RESULTS = Path(__file__).parent / "RESULTS.md"
"""The file that all measurements share."""

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)


def merged(old: str, new: str) -> str:
    """`old` with the sections of `new`: in place where `old` has a section of that heading, otherwise at the end.

    A section begins with a heading of the second level. What stands before the first one is a section as well.
    """
    sections = _sections(old) | {heading: text for heading, text in _sections(new).items() if text}
    return "\n\n".join(text for text in sections.values() if text) + "\n"


def _sections(text: str) -> dict[str, str]:
    """Text of each section by its heading; of what stands before the first heading by ""."""
    before, *rest = _HEADING.split(text)
    return {"": before.strip()} | {part.partition("\n")[0].rstrip(): part.strip() for part in rest}


def write_sections(text: str, path: Path = RESULTS) -> None:
    """Merge `text` into a file, which is made if it is missing."""
    path.write_text(merged(path.read_text() if path.exists() else "# Results\n", text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))
