"""Failures inside delegates as exceptions of the method that called them."""

from __future__ import annotations

from typing import Any

from etarena.allocator.errors import RuntimeFailure

__all__ = ["delegate_failure"]


def delegate_failure(
    action: str, backend: str, step: str, reason: str, cause: BaseException | None, **details: Any
) -> BaseException:
    """Describe what went wrong in a function of a delegate.

    Parameters
    ----------
    action
        What was being done, to start the message with.
    backend
        Backend id.
    step
        The delegate's function that failed.
    reason
        What it said.
    cause
        The Python exception behind it, if there is one.
    **details
        As for `RuntimeFailure`.

    Returns
    -------
    BaseException
        To be raised: a RuntimeFailure with the cause attached, or the cause itself if it is no error, such as
        KeyboardInterrupt.
    """
    if cause is not None and not isinstance(cause, Exception):
        return cause
    instruction = details.get("instruction", -1)
    place = f" at instruction {instruction}" if instruction >= 0 else ""
    details.setdefault("operator", backend)
    failure = RuntimeFailure(f"{action} failed: delegate {backend!r}{place}: {step}: {reason}", **details)
    failure.__cause__ = cause
    return failure
