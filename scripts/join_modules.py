"""Make one Cython module of several that ``cimport`` each other.

Every Cython module brings 25 to 40 KB of machinery of its own: joined, they share one. Names at the top of the modules
must differ. What imported them goes on working through a small Python module for each, which takes its names from the
joined one.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["join_modules", "public_names", "stand_in"]

_DOCSTRING = re.compile(r'\A""".*?"""\n', re.S)
_ALL = re.compile(r"^__all__ = (\[.*?\])\n", re.S | re.M)
# A name at the top of a .pyx: of a function, a class or a variable with a value.
_TOP_NAME = re.compile(r"^(?!from |import |cimport |    |#)(?:[\w\[\]*.]+ )*\*?(\w+)(?=\(| =|:\n)", re.M)


def join_modules(folder: Path, names: tuple[str, ...], target: Path) -> None:
    """Write ``target`` (a .pyx) and the .pxd beside it.

    Parameters
    ----------
    folder : Path
        Where the modules are.
    names : tuple of str
        The modules, each after those that it uses.
    target : Path
        The joined module; its package must be that of the modules.

    Raises
    ------
    SystemExit
        Two modules have a name in common.
    """
    sources = {name: (folder / f"{name}.pyx").read_text() for name in names}
    defined = [name for text in sources.values() for name in sorted(set(_TOP_NAME.findall(text)) - {"__all__", "enum"})]
    if twice := [name for name, count in Counter(defined).items() if count > 1]:
        raise SystemExit(f"{', '.join(names)} cannot be joined: {', '.join(twice)} is defined in two of them")
    target.parent.mkdir(parents=True, exist_ok=True)
    _write(target, "\n\n".join(_without_siblings(text, names) for text in sources.values()))
    declarations = [folder / f"{name}.pxd" for name in names]
    _write(
        target.with_suffix(".pxd"),
        "\n\n".join(_without_siblings(path.read_text(), names) for path in declarations if path.exists()),
    )


def public_names(source: str) -> list[str]:
    """The names that a module lists in ``__all__``."""
    found = _ALL.search(source)
    return ast.literal_eval(found.group(1)) if found else []


def stand_in(module: Path, joined: str) -> str:
    """Text of the Python module that takes the place of a joined one."""
    names = public_names(module.read_text())
    lines = [f'"""Compiled into ``{joined}``."""', ""]
    if names:
        lines += [f"from .{joined} import {', '.join(names)}", ""]
    return "\n".join([*lines, f"__all__ = {names}", ""])


def _without_siblings(text: str, names: tuple[str, ...]) -> str:
    """The text of a module without its docstring, its ``__all__`` and its imports from the others."""
    siblings = "|".join(map(re.escape, names))
    imports = re.compile(rf"^from \.(?:{siblings}) c?import (?:\([^)]*\)|[^\n]*)\n", re.M)
    return imports.sub("", _ALL.sub("", _DOCSTRING.sub("", text)))


def _write(path: Path, text: str) -> None:
    """Leave a file alone that is right already, so that it is not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
