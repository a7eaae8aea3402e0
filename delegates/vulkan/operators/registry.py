"""Which operators there are: for each a function that emits its work, and one that says what it does not support."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .call import Call

__all__ = ["Check", "Emit", "Operator", "all_operators", "operator"]

Emit: TypeAlias = "Callable[[Call], None]"
Check: TypeAlias = Callable[["dict[str, Any]"], "str | None"]


@dataclass(frozen=True)
class Operator:
    """An operator that the delegate runs.

    Attributes
    ----------
    name
        As in PyTorch, with its overload: ``"aten.add.Tensor"``.
    emit
        Given a `Call` with all shapes known, emits dispatches.
    check
        At export: given the arguments by the schema's names (tensors are torch's fake ones; ``"out"`` is the result or
        the tuple of them), says why this call is not supported, or None.
    keep
        Whether it is to be kept whole where PyTorch would take it apart.
    """

    name: str
    emit: Emit
    check: Check | None
    keep: bool


_known: dict[str, Operator] = {}


def operator(*names: str, check: Check | None = None, keep: bool = False) -> Callable[[Emit], Emit]:
    """Register what emits the work of operators.

    Parameters
    ----------
    names
        As in PyTorch, with overloads: ``"aten.add.Tensor"``, ``"aten.relu.default"``.
    check, keep
        As in `Operator`.
    """

    def register(emit: Emit) -> Emit:
        for name in names:
            if name in _known:
                raise ValueError(f"operator {name} is registered twice")
            _known[name] = Operator(name, emit, check, keep)
        return emit

    return register


@cache
def all_operators() -> dict[str, Operator]:
    """Every operator by name."""
    from . import __name__ as package
    from . import __path__ as folders

    for module in pkgutil.iter_modules(folders):
        importlib.import_module(f"{package}.{module.name}")
    return dict(_known)
