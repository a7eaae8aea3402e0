"""Every size as a register of one size program, and names for symbols."""

import re
from collections.abc import Mapping, Sequence

import sympy

from .allocator import plan
from .allocator.errors import ExportError, PlanError
from .allocator.size_compiler import compile_sizes
from .traced import Size

__all__ = ["Registers", "name_symbols", "named_text"]


class Registers:
    """Sizes and conditions collected first, compiled together, then looked up.

    Parameters
    ----------
    symbols : sequence of sympy.Symbol
        They are registers 0, 1, ... of the program.
    """

    def __init__(self, symbols: Sequence[sympy.Symbol]) -> None:
        self.symbols = list(symbols)
        self._expressions: dict[Size | sympy.Basic, int] = {}
        self._registers: list[int] = []
        self.code: list[plan.SizeInstruction] = []

    def want(self, expr: Size | sympy.Basic) -> None:
        """Ask for a register that will hold `expr`."""
        self._expressions.setdefault(sympy.sympify(expr), len(self._expressions))

    def compile(self) -> None:
        """Compile everything asked for so far.

        Raises
        ------
        ExportError
            If a size uses a function that size programs do not know.
        """
        try:
            program, self._registers = compile_sizes(self.symbols, list(self._expressions))
        except PlanError as error:
            raise ExportError(f"a size of this model cannot be computed at run time: {error}") from error
        self.code = [plan.SizeInstruction(*step) for step in program.instructions]

    def __getitem__(self, expr: Size | sympy.Basic) -> int:
        return self._registers[self._expressions[sympy.sympify(expr)]]


def name_symbols(symbols: Sequence[sympy.Symbol], names: Mapping[sympy.Symbol, str]) -> list[str]:
    """The user's names where there are any, otherwise torch's; unique either way."""
    chosen: list[str] = []
    for symbol in symbols:
        name = names.get(symbol, str(symbol))
        chosen.append(name if name not in chosen else f"{name}_{symbol}")
    return chosen


def named_text(text: str, symbols: Sequence[sympy.Symbol], names: Sequence[str]) -> str:
    """Put the names of symbols into a text, all at once: a name may be another symbol's."""
    name_of = {str(symbol): name for symbol, name in zip(symbols, names, strict=True)}
    return re.sub(r"\w+", lambda word: name_of.get(word.group(), word.group()), text)
