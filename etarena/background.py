"""Runs of methods in the background."""

from __future__ import annotations

import contextvars
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

__all__ = ["PendingRun", "RunQueue"]


class PendingRun:
    """A run in the background, made by `Method.submit`.

    Parameters
    ----------
    future
        Of the results.
    """

    def __init__(self, future: Future[list[Any]]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether it ended, one way or the other."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> list[Any]:
        """Wait for the results.

        Parameters
        ----------
        timeout
            Seconds; None: no end.

        Returns
        -------
        list
            As `Method.execute` gives them.

        Raises
        ------
        TimeoutError
            It is not done in time, and goes on.
        Error
            What `Method.execute` raised.
        """
        return self._future.result(timeout)


class RunQueue:
    """Runs of one method in the background, one after the other, in a thread that is there while there is work."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0  # of the pool: a forked child has none of its parent's threads

    def submit(self, execute: Callable[[], list[Any]]) -> PendingRun:
        """Run something behind all that was submitted before, in the caller's context (``zero_copy()`` counts)."""
        if self._pool is None or self._process != os.getpid():
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="etarena-run")
            self._process = os.getpid()
        return PendingRun(self._pool.submit(contextvars.copy_context().run, execute))
