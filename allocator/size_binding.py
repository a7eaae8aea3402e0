"""Which size of an input gives which symbol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from . import plan
from .errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import sympy

__all__ = ["InputSize", "affine", "bind_symbols", "expression"]

Size: TypeAlias = Any  # int or sympy.Expr


def expression(size: Any) -> Size:
    """The number or sympy expression behind a size: an int, or torch's SymInt."""
    if isinstance(size, int):
        return size
    found = size.node.expr
    return int(found) if found.is_number else found


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
    import sympy

    scale = sympy.diff(size, symbol) if isinstance(size, sympy.Expr) and size.is_polynomial(symbol) else None
    if scale is None or not scale.is_Integer:
        return None
    offset = sympy.expand(size - scale * symbol)
    return (int(scale), int(offset)) if offset.is_Integer else None
