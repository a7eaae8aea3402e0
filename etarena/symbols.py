"""How inputs define a method's symbols, which values are legal, and every size as a register of one size program."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sympy

from .allocator import plan
from .allocator.errors import ExportError, PlanError
from .allocator.size_compiler import compile_sizes
from .traced import Size

__all__ = ["InputSize", "Registers", "affine", "bind_symbols", "name_symbols"]


@dataclass(frozen=True)
class InputSize:
    """One dimension of an input (`dim` -1: the value of an int input), and what it is in terms of symbols."""

    input: int
    dim: int
    size: Size


def bind_symbols(
    symbols: Sequence[sympy.Symbol], sizes: Iterable[InputSize], told: Collection[sympy.Symbol] = ()
) -> list[plan.Binding]:
    """For every symbol, the simplest input size that determines it: the symbol itself, or ``scale * symbol + offset``.

    Symbols in `told` become known in another way, and get no binding.

    Raises
    ------
    ExportError
        If a symbol appears only in sizes that mix several symbols or are not affine in it.
    """
    best: dict[sympy.Symbol, tuple[tuple[int, ...], plan.Binding]] = {}
    position = {symbol: i for i, symbol in enumerate(symbols)}
    mixed: dict[sympy.Symbol, Size] = {}
    for entry in sizes:
        free: set[sympy.Symbol] = getattr(entry.size, "free_symbols", set())
        for symbol in free:
            mixed.setdefault(symbol, entry.size)
        solved = affine(entry.size, next(iter(free))) if len(free) == 1 else None
        if solved is None:
            continue
        (symbol,) = free
        scale, offset = solved
        if symbol in position and scale >= 1:
            cost = (scale != 1, offset != 0, abs(scale), abs(offset))
            binding = plan.Binding(position[symbol], entry.input, entry.dim, scale, offset)
            if symbol not in best or cost < best[symbol][0]:
                best[symbol] = (cost, binding)
    wanted = [symbol for symbol in symbols if symbol not in told]
    for symbol in wanted:
        if symbol not in best:
            where = f"it appears as {mixed[symbol]}" if symbol in mixed else "no input has it as a size"
            raise ExportError(f"the inputs do not determine the size {symbol}: {where}. Give one input this very size")
    return [best[symbol][1] for symbol in wanted]


def affine(size: Size, symbol: sympy.Symbol) -> tuple[int, int] | None:
    """Scale and offset if `size` is ``scale * symbol + offset`` with integers, else None."""
    scale = sympy.diff(size, symbol) if isinstance(size, sympy.Expr) and size.is_polynomial(symbol) else None
    if scale is None or not scale.is_Integer:
        return None
    offset = sympy.expand(size - scale * symbol)
    return (int(scale), int(offset)) if offset.is_Integer else None


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
