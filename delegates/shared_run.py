"""What the delegates of one method know of a run together."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ..device.copies import Copy

__all__ = ["SharedRun", "current_run"]

_current: ContextVar[SharedRun | None] = ContextVar("etarena_shared_run", default=None)


def current_run() -> SharedRun | None:
    """The run that delegates are called in; None where it is ExecuTorch alone that runs them."""
    return _current.get()


class SharedRun:
    """The runs of one method, one after the other: ``begin`` and ``end`` stand around each.

    Attributes
    ----------
    made : dict
        What delegates made in this run for those behind them. Empty when a run begins, and after one that failed.
    rooms : WeakValueDictionary
        Memory that serves from run to run, as long as somebody holds it.
    copies : list of Copy
        What delegates copied in this run, beyond what their `Requirement` asks for.
    """

    def __init__(self) -> None:
        self.made: dict[Hashable, Any] = {}
        self.rooms: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self.copies: list[Copy] = []
        self._token: Token[SharedRun | None] | None = None

    def begin(self, copies: list[Copy]) -> None:
        """Let delegates that are called on this thread from now on know this run, and add to its copies."""
        self.made.clear()
        self.copies = copies
        self._token = _current.set(self)

    def end(self) -> None:
        """Let go of what was made; does nothing where no run has begun."""
        token, self._token = self._token, None
        if token is not None:
            _current.reset(token)
            self.made.clear()
