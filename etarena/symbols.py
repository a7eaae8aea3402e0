"""How inputs define a method's symbols, which values are legal, and every size as a register of one size program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy

from .allocator import plan
from .allocator.errors import ExportError, PlanError
from .allocator.size_compiler import compile_sizes

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeGuard

__all__ = ["Registers", "bind_symbols", "condition", "explicit_conditions", "name_symbols"]

Size = int | sympy.Expr
Condition = tuple[sympy.Basic, str]

# Guards that torch and ExecuTorch set to choose a layout or a backend, not because the model needs them. The function
# that asked is named by the guard itself.
LAYOUT_FUNCTIONS = frozenset(
    {
        "__lt__",  # dim_order_from_stride compares strides
        "_reshape_view_helper_core_alg",
        "_view_unbacked_meta",
        "check_contiguous_sizes_strides",
        "compute_channels_last_contiguous_2d",
        "compute_channels_last_contiguous_3d",
        "conv",
        "dim_order_from_stride",
        "is_channels_last_contiguous_2d",
        "is_channels_last_contiguous_3d",
        "is_contiguous",
        "is_contiguous_for_memory_format",
        "is_non_overlapping_and_dense",
        "suggest_memory_format",
    }
)


@dataclass(frozen=True)
class InputSize:
    """One dimension of an input (`dim` -1: the value of an int input), and what it is in terms of symbols."""

    input: int
    dim: int
    size: Size


def bind_symbols(symbols: Sequence[sympy.Symbol], sizes: Iterable[InputSize]) -> list[plan.Binding]:
    """For every symbol, the simplest input size that determines it: the symbol itself, or ``scale * symbol + offset``.

    Raises
    ------
    ExportError
        If a symbol appears only in sizes that mix several symbols or are not affine in it.
    """
    best: dict[sympy.Symbol, tuple[tuple[int, ...], plan.Binding]] = {}
    position = {symbol: i for i, symbol in enumerate(symbols)}
    mixed: dict[sympy.Symbol, Size] = {}
    for entry in sizes:
        free = getattr(entry.size, "free_symbols", set())
        for symbol in free:
            mixed.setdefault(symbol, entry.size)
        affine = _affine(entry.size, next(iter(free))) if len(free) == 1 else None
        if affine is None:
            continue
        (symbol,) = free
        scale, offset = affine
        if symbol in position and scale >= 1:
            cost = (scale != 1, offset != 0, abs(scale), abs(offset))
            binding = plan.Binding(position[symbol], entry.input, entry.dim, scale, offset)
            if symbol not in best or cost < best[symbol][0]:
                best[symbol] = (cost, binding)
    for symbol in symbols:
        if symbol not in best:
            where = f"it appears as {mixed[symbol]}" if symbol in mixed else "no input has it as a size"
            raise ExportError(f"the inputs do not determine the size {symbol}: {where}. Give one input this very size")
    return [best[symbol][1] for symbol in symbols]


def _affine(size: Size, symbol: sympy.Symbol) -> tuple[int, int] | None:
    """Scale and offset if `size` is ``scale * symbol + offset`` with integers, else None."""
    scale = sympy.diff(size, symbol) if size.is_polynomial(symbol) else None
    if scale is None or not scale.is_Integer:
        return None
    offset = sympy.expand(size - scale * symbol)
    return (int(scale), int(offset)) if offset.is_Integer else None


def explicit_conditions(guards: Iterable["ShapeGuard"]) -> list[Condition]:
    """What the model itself asked about its sizes while it was traced, layout decisions left out."""
    return [
        (part, str(part)) for guard in guards if not _is_layout_decision(guard) for part in sympy.And.make_args(guard.expr)
    ]


def _is_layout_decision(guard: "ShapeGuard") -> bool:
    location = getattr(guard.sloc, "framework_loc", None)
    return getattr(location, "name", "") in LAYOUT_FUNCTIONS


def condition(expr: sympy.Basic, ranges: Mapping[sympy.Symbol, tuple[int, int]], known: set[sympy.Symbol]) -> bool:
    """Whether a guard says more than the ranges do, and in terms of symbols that inputs determine."""
    if expr in (sympy.true, sympy.false) or not expr.free_symbols or not expr.free_symbols <= known:
        return False
    if isinstance(expr, sympy.core.relational.Relational) and len(expr.free_symbols) == 1:
        (symbol,) = expr.free_symbols
        if symbol in (expr.lhs, expr.rhs) and (expr.lhs.is_Integer or expr.rhs.is_Integer):
            low, high = ranges.get(symbol, (0, 2**63 - 1))
            return not (_always(expr, symbol, low, high))
    return True


def _always(expr: sympy.Basic, symbol: sympy.Symbol, low: int, high: int) -> bool:
    """Whether a comparison of `symbol` with a number holds on the whole range: an order holds if it does at both ends."""
    if isinstance(expr, sympy.Eq):
        return low == high and bool(expr.subs(symbol, low))
    if isinstance(expr, sympy.Ne):
        (number,) = (side for side in (expr.lhs, expr.rhs) if side.is_Integer)
        return not low <= int(number) <= high
    return bool(expr.subs(symbol, low)) and bool(expr.subs(symbol, high))


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
