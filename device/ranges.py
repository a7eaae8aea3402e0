"""Which bytes of which handles are taken."""

from __future__ import annotations

from bisect import bisect_left, insort

from .kinds import ResourceKind
from .resource import Resource

__all__ = ["POINTER_KINDS", "TakenRanges"]

POINTER_KINDS = (ResourceKind.HOST, ResourceKind.DEVICE_POINTER)


class TakenRanges:
    """Resources that must not overlap, as far as their handles tell: pointers lie in one space, other handles apart."""

    def __init__(self) -> None:
        self._starts: dict[object, list[tuple[int, int]]] = {}

    def overlapping(self, resource: Resource) -> tuple[int, int] | None:
        """First and one past the last byte of a range that shares bytes with a resource; None if none does."""
        space, start, end = _place(resource)
        taken = self._starts.get(space, [])
        position = bisect_left(taken, (start, start))
        for other_start, other_end in taken[max(position - 1, 0) : position + 1]:
            if other_start < end and start < other_end:
                return other_start, other_end
        return None

    def add(self, resource: Resource) -> None:
        """Take the bytes of a resource that overlaps no other."""
        space, start, end = _place(resource)
        if start < end:
            insort(self._starts.setdefault(space, []), (start, end))

    def remove(self, resource: Resource) -> None:
        """Free the bytes of a resource that was added."""
        space, start, end = _place(resource)
        if start < end:
            taken = self._starts[space]
            del taken[bisect_left(taken, (start, end))]


def _place(resource: Resource) -> tuple[object, int, int]:
    pointer = resource.kind in POINTER_KINDS
    start = resource.offset + (resource.handle if pointer else 0)
    return "pointers" if pointer else (resource.kind, resource.handle), start, start + resource.nbytes
