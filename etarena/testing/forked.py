"""Work in a forked child."""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
import traceback
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_child", "traced_in_child"]


def in_child(work: Callable[[], None]) -> int:
    """Run a function in a forked child that ends at once; its exit status, 0 if the function returned.

    The child does not run the parent's exit handlers and has one thread only.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads
        child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def traced_in_child(work: Callable[[], None], seconds: int) -> tuple[int, str]:
    """The same, for work that may crash or hang: its exit status (-number of a signal), and where it was in Python.

    A child that waits for a thread that only its parent has is ended by SIGALRM after so many seconds.
    """
    with tempfile.TemporaryFile("w+") as trace:

        def guarded() -> None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            faulthandler.enable(trace)
            try:
                work()
            except BaseException:
                traceback.print_exc(file=trace)
                trace.flush()
                raise

        status = in_child(guarded)
        trace.seek(0)
        return status, trace.read()
