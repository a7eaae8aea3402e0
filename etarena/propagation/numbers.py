"""Numbers for the symbols of a propagation, from names or from input shapes, with the model's conditions checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy

from ..allocator.errors import InputError, InputTypeError, ShapeError, SizeOverflowError
from ..allocator.size_binding import affine

if TYPE_CHECKING:
    from .arguments import InputShape
    from .values import Size, SizeSymbol

__all__ = ["Sizes", "finite", "sizes_from_shapes"]

INT64_MAX = 2**63 - 1


@dataclass
class Sizes:
    """One number for each symbol."""

    values: dict[Any, Any]
    _known: dict[Size, int] = field(default_factory=dict)

    def number(self, size: Size) -> int:
        """The number that a size is.

        Raises
        ------
        SizeOverflowError
            If it does not fit 64 bits.
        ShapeError
            If it divides by zero.
        """
        if isinstance(size, int):
            return size
        if size not in self._known:
            try:
                found = int(size.xreplace(self.values))
            except ZeroDivisionError as error:
                raise ShapeError(f"{size} divides by zero for these sizes: {self._text()}") from error
            if not -(2**62) < found < 2**62:
                raise SizeOverflowError(
                    f"{size} is {found} for these sizes, which does not fit 62 bits: give smaller ones"
                )
            self._known[size] = found
        return self._known[size]

    @classmethod
    def of(
        cls,
        symbols: Mapping[str, SizeSymbol],
        conditions: Sequence[Any],
        inputs: Sequence[InputShape],
        sizes: Any,
        shapes: Any,
    ) -> Sizes:
        """Numbers as a caller gives them; see `Propagation.peak` for arguments and errors."""
        if sizes is not None and not isinstance(sizes, Mapping):
            raise InputTypeError(f"sizes: expected a mapping of names to numbers, got {type(sizes).__name__}")
        numbers = {} if shapes is None else sizes_from_shapes(inputs, shapes)
        for name, number in dict(sizes or {}).items():
            if name not in symbols:
                raise InputError(f"sizes: there is no symbol {name!r}; there are {', '.join(symbols) or 'none'}")
            if numbers.setdefault(name, number) != number:
                raise InputError(f"sizes: {name} is {number}, but the shapes make it {numbers[name]}")
        missing = [name for name in symbols if name not in numbers]
        if missing:
            raise InputError(
                f"no number for {', '.join(missing)}: give each symbol a size, e.g. {{{missing[0]!r}: 64}}"
            )
        for name, number in numbers.items():
            _check(symbols[name], number)
        values = {sympy.Symbol(name, integer=True): sympy.Integer(number) for name, number in numbers.items()}
        found = cls({**values, **_told_symbols(conditions, inputs, numbers)})
        found._check_conditions(conditions)
        return found

    def _check_conditions(self, conditions: Sequence[Any]) -> None:
        for condition in conditions:
            try:
                holds = condition.xreplace(self.values) != sympy.false
            except ZeroDivisionError:
                holds = False
            if not holds:
                raise ShapeError(
                    f"these sizes break a condition of the table: {condition} ({self._text()}); for such sizes the "
                    "model's code, or PyTorch, does something else: propagate with an example among them"
                )

    def _text(self) -> str:
        return ", ".join(f"{symbol} = {number}" for symbol, number in self.values.items())


def _check(symbol: SizeSymbol, number: Any) -> None:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise InputTypeError(f"sizes: {symbol.name} must be an int, got {number!r}")
    if number.__index__() < symbol.min:
        raise ShapeError(f"{symbol.name} is {number}, but must be at least {symbol.min}")
    if number.__index__() > symbol.max:
        raise ShapeError(f"{symbol.name} is {number}, but must be at most {symbol.max}")


def sizes_from_shapes(inputs: Sequence[InputShape], shapes: Any) -> dict[str, int]:
    """Numbers of the symbols in the sizes of inputs; see `Propagation.peak` for errors."""
    names = ", ".join(entry.name for entry in inputs)
    if isinstance(shapes, Mapping):
        unknown = [name for name in shapes if name not in {entry.name for entry in inputs}]
        if unknown or len(shapes) != len(inputs):
            raise InputError(f"shapes must name each of {names} once")
        shapes = [shapes[entry.name] for entry in inputs]
    if isinstance(shapes, str) or not isinstance(shapes, Sequence) or len(shapes) != len(inputs):
        raise InputError(f"shapes: expected one for each tensor input ({names}), got {shapes!r}")
    numbers: dict[str, int] = {}
    pairs = []
    for entry, shape in zip(inputs, shapes, strict=True):
        if isinstance(shape, str) or not isinstance(shape, Sequence) or len(shape) != len(entry.shape):
            raise InputError(f"the shape of input {entry.name!r} must have {len(entry.shape)} sizes, got {shape!r}")
        pairs += [(entry, dim, size, given) for dim, (size, given) in enumerate(zip(entry.shape, shape, strict=True))]
    for entry, dim, _, given in pairs:
        if isinstance(given, bool) or not hasattr(given, "__index__") or given.__index__() < 0:
            raise InputError(f"dimension {dim} of input {entry.name!r} must be an int >= 0, got {given!r}")
    for entry, dim, size, given in pairs:
        _solve(entry.name, dim, size, given.__index__(), numbers)
    for entry, dim, size, given in pairs:
        _agree(entry.name, dim, size, given.__index__(), numbers)
    return numbers


def _solve(name: str, dim: int, size: Size, given: int, numbers: dict[str, int]) -> None:
    free = list(getattr(size, "free_symbols", ()))
    solved = affine(size, free[0]) if len(free) == 1 else None
    if solved is None or str(free[0]) in numbers:
        return
    scale, offset = solved
    number, rest = divmod(given - offset, scale) if scale else (0, 1)
    if rest:
        raise ShapeError(
            f"dimension {dim} of input {name!r} is {given}, but must be {size} for a whole number {free[0]}"
        )
    numbers[str(free[0])] = number


def _agree(name: str, dim: int, size: Size, given: int, numbers: dict[str, int]) -> None:
    values = {symbol: numbers.get(str(symbol)) for symbol in getattr(size, "free_symbols", ())}
    if None in values.values():
        return
    expected = size if isinstance(size, int) else int(size.xreplace({s: sympy.Integer(n) for s, n in values.items()}))
    if expected != given:
        reason = "" if isinstance(size, int) else f" ({size})"
        raise ShapeError(f"dimension {dim} of input {name!r} is {given}, but must be {expected}{reason}")


def _told_symbols(
    conditions: Sequence[Any], inputs: Sequence[InputShape], numbers: Mapping[str, int]
) -> dict[Any, Any]:
    """Symbols as they stand in expressions: those that data tells keep torch's own."""
    found: dict[Any, Any] = {}
    for condition in conditions:
        for symbol in condition.free_symbols:
            if str(symbol) in numbers:
                found[symbol] = sympy.Integer(numbers[str(symbol)])
    return found


def finite(limit: Any, infinite: int) -> int:
    """The limit of a range as an int; `infinite` in place of one beyond 64 bits."""
    if not getattr(limit, "is_finite", True) or abs(limit) >= INT64_MAX:
        return infinite
    return int(limit)
