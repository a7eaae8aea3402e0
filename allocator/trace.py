"""Events and snapshots of a heap as plain data."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["AllocationEvent", "HeapRange", "HeapSnapshot"]


@dataclass(frozen=True)
class AllocationEvent:
    """Something that happened on a heap.

    Attributes
    ----------
    time : int
        ns on the monotonic clock.
    kind : str
        ``"alloc"``, ``"free"``, ``"resize"`` or ``"trim"``.
    offset, nbytes : int
        The block: bytes from the start of the arena or heap; bytes that were asked for.
    cause : str
        What the owner called it; empty by default.
    """

    time: int
    kind: str
    offset: int
    nbytes: int
    cause: str


@dataclass(frozen=True)
class HeapRange:
    """A range of a heap: bytes from its start, its size, and the bytes asked for; -1 if it is free."""

    offset: int
    size: int
    requested: int

    @property
    def is_free(self) -> bool:
        """Whether no block is in it."""
        return self.requested < 0


@dataclass(frozen=True)
class HeapSnapshot:
    """All ranges of a heap in address order, without gaps.

    Attributes
    ----------
    name : str
        Of the arena or heap.
    start : int
        Address of offset 0; 0 for a heap of offsets only.
    ranges : tuple of HeapRange
    events : tuple of AllocationEvent
        What is kept of what led here, oldest first; offsets are from the start of the arena.
    """

    name: str
    start: int
    ranges: tuple[HeapRange, ...]
    events: tuple[AllocationEvent, ...]

    @classmethod
    def of(
        cls, name: str, start: int, ranges: Iterable[tuple[int, int, int]], events: Iterable[AllocationEvent]
    ) -> "HeapSnapshot":
        """From what the heap reports."""
        return cls(name, start, tuple(HeapRange(*entry) for entry in ranges), tuple(events))
