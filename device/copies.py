"""The copy ledger: every byte etarena moves for the caller is written down with its cause, or refused."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..allocator.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Copy", "CopyRefusedError", "allow_copy", "record_copies", "refuses_copies", "write_down", "zero_copy"]

_refuse_copies: ContextVar[bool] = ContextVar("etarena_refuse_copies", default=False)
_ledgers: ContextVar[tuple[list[Copy], ...]] = ContextVar("etarena_ledgers", default=())


class CopyRefusedError(Error):
    """A copy would have been made inside ``with etarena.zero_copy():``."""


@dataclass(frozen=True)
class Copy:
    """One copy of tensor data.

    Attributes
    ----------
    cause
        Why it was made, and of what.
    nbytes
        Bytes moved.
    """

    cause: str
    nbytes: int


def refuses_copies() -> bool:
    """Whether this is inside ``zero_copy()``."""
    return _refuse_copies.get()


def allow_copy(cause: str, nbytes: int) -> Copy:
    """Write a copy down before it is made.

    Parameters
    ----------
    cause
        Why it is made, and of what.
    nbytes
        Bytes to be moved.

    Raises
    ------
    CopyRefusedError
        Inside ``zero_copy()``.
    """
    copy = Copy(cause, nbytes)
    write_down(copy)
    return copy


def write_down(copy: Copy) -> None:
    """As `allow_copy`, for a copy that was described before."""
    if _refuse_copies.get():
        raise CopyRefusedError(f"a copy of {copy.nbytes} bytes is needed: {copy.cause}")
    for ledger in _ledgers.get():
        ledger.append(copy)


@contextmanager
def zero_copy() -> Iterator[None]:
    """Refuse every copy of tensor data in this block (and thread or task) with `CopyRefusedError`."""
    token = _refuse_copies.set(True)
    try:
        yield
    finally:
        _refuse_copies.reset(token)


@contextmanager
def record_copies() -> Iterator[list[Copy]]:
    """Give a list to which every copy made in this block (and thread or task) is added, with its cause and bytes."""
    ledger: list[Copy] = []
    token = _ledgers.set((*_ledgers.get(), ledger))
    try:
        yield ledger
    finally:
        _ledgers.reset(token)
