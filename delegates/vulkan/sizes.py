"""Symbolic sizes of a delegate's graph, compiled to a size program over what its inputs tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ...allocator.errors import ExportError, PlanError
from ...allocator.plan import Binding
from ...allocator.size_binding import InputSize, bind_symbols, expression
from ...allocator.size_compiler import compile_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GraphSizes", "sizes_of"]


def sizes_of(value: Any) -> Any:
    """The sizes of a tensor; anything else as it is."""
    return list(value.shape) if isinstance(value, torch.Tensor) else value


class GraphSizes:
    """Registers of a graph's sizes.

    A symbol is what a tensor among the inputs has as a size, alone or scaled and shifted: the value of an int is not
    known yet when a plan is made. Where an input has a size that mixes symbols which no input has alone, that size is
    a symbol of its own.

    Parameters
    ----------
    inputs
        For each input the sizes of a tensor, or the int itself.
    """

    def __init__(self, inputs: Sequence[Sequence[int | torch.SymInt] | int | torch.SymInt]) -> None:
        self._known: list[InputSize] = []
        for place, given in enumerate(inputs):
            if not isinstance(given, int | torch.SymInt):
                self._known += [InputSize(place, dim, expression(size)) for dim, size in enumerate(given)]
        self._mixed: dict[Any, Any] = {}
        self._symbols: list[Any] = []
        self._bindings: list[Binding] = []
        self._find_symbols()
        self._wanted: dict[Any, int] = {}
        self._registers: list[int] = []

    def _find_symbols(self) -> None:
        free = sorted({symbol for entry in self._known for symbol in _symbols(entry.size)}, key=str)
        solved = []
        for symbol in free:
            try:
                (binding,) = bind_symbols([symbol], self._known)
            except ExportError:
                continue
            solved.append(symbol)
            binding.symbol = len(self._bindings)
            self._bindings.append(binding)
        self._symbols = list(solved)
        for entry in self._known:
            if _symbols(entry.size) <= set(solved) or entry.size in self._mixed:
                continue
            stand_in = sympy.Symbol(f"mixed{len(self._mixed)}", integer=True, nonnegative=True)
            self._mixed[entry.size] = stand_in
            self._bindings.append(Binding(len(self._symbols), entry.input, entry.dim, 1, 0))
            self._symbols.append(stand_in)

    def want(self, size: int | torch.SymInt) -> int:
        """Ask for the register of a size; gives a ticket for `register`."""
        found = sympy.sympify(expression(size))
        if not _symbols(found) <= set(self._symbols):
            found = self._in_terms_of_mixed(found)
        return self._wanted.setdefault(found, len(self._wanted))

    def _in_terms_of_mixed(self, size: Any) -> Any:
        """A size by those of inputs that mix symbols: n // 4 is (n // 2) // 2."""
        known = dict(self._mixed)
        for whole in size.atoms(FloorDiv):
            for part, stand_in in self._mixed.items():
                if isinstance(part, FloorDiv) and part.args[0] == whole.args[0]:
                    factor, rest = divmod(whole.args[1], part.args[1])
                    if factor.is_Integer and factor > 1 and rest == 0:
                        known[whole] = FloorDiv(stand_in, factor)
        return size.subs(known)

    def compile(self) -> tuple[int, list[tuple[int, int, int, int]], list[Binding]]:
        """Compile everything asked for.

        Returns
        -------
        n_symbols, code, bindings
            As in `Graph`.

        Raises
        ------
        ExportError
            The inputs do not tell a size.
        """
        try:
            program, self._registers = compile_sizes(self._symbols, list(self._wanted))
        except PlanError as error:
            raise ExportError(f"a size cannot be computed from the inputs: {error}") from error
        return len(self._symbols), list(program.instructions), list(self._bindings)

    def register(self, ticket: int) -> int:
        """The register that holds a size, once compiled."""
        return self._registers[ticket]


def _symbols(size: Any) -> set[Any]:
    return getattr(size, "free_symbols", set())
