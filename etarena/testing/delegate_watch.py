"""Stand-ins for Python delegates that count calls and fail when they are told to."""

from __future__ import annotations

import sys
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..delegates.delegate import Delegate

__all__ = ["InjectedError", "Watch", "unraisable", "watched"]


class InjectedError(Exception):
    """Raised in place of a delegate's method by the suite."""


@dataclass
class Watch:
    """What the objects of a watched class did.

    Attributes
    ----------
    made, closed
        How many objects came through `init`; how often each was closed, by number of the object.
    alive
        Weak references to the objects.
    calls
        How often each method was called on any object.
    fail_at
        By method: the call, counted from 0, that fails.
    """

    made: int = 0
    closed: dict[int, int] = field(default_factory=dict)
    alive: list[weakref.ref[Any]] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    fail_at: dict[str, int] = field(default_factory=dict)

    def enter(self, step: str) -> None:
        """Count a call, and fail if it is the one to fail."""
        number = self.calls.get(step, 0)
        self.calls[step] = number + 1
        if self.fail_at.get(step) == number:
            raise InjectedError(f"call {number} of {step} was told to fail")


def watched(delegate: type[Delegate]) -> tuple[type[Delegate], Watch]:
    """A subclass of a delegate that does the same and is watched; only what the delegate defines is overridden."""
    watch = Watch()

    def through(step: str) -> Any:
        def call(self: Any, *args: Any) -> Any:
            watch.enter(step)
            return getattr(super(made, self), step)(*args)

        return call

    def init(self: Any, *args: Any) -> None:
        watch.enter("init")
        super(made, self).init(*args)
        self._number_of_the_suite = watch.made
        watch.made += 1
        watch.alive.append(weakref.ref(self))

    def close(self: Any) -> None:
        number = getattr(self, "_number_of_the_suite", -1)
        watch.closed[number] = watch.closed.get(number, 0) + 1
        super(made, self).close()

    methods: dict[str, Any] = {"init": init, "close": close, "execute": through("execute")}
    from ..delegates.delegate import Delegate

    if delegate.scratch_bytes is not Delegate.scratch_bytes:
        methods["scratch_bytes"] = through("scratch_bytes")
    made: Any = type(delegate.__name__, (delegate,), methods)
    return made, watch


@contextmanager
def unraisable() -> Iterator[list[str]]:
    """Collect the exceptions that nobody could be told in this block, as text."""
    seen: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda entry: seen.append(f"{entry.exc_type.__name__}: {entry.exc_value}")
    try:
        yield seen
    finally:
        sys.unraisablehook = before
