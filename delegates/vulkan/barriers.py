"""Where dispatches must wait for others: derived from the bytes that they touch, aliasing included."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Range", "barriers_before"]

Range: TypeAlias = tuple[str, int, int]  # space, first byte, one past the last


def barriers_before(
    accesses: Sequence[tuple[Sequence[Range], Sequence[Range]]], parts: Sequence[int | None] | None = None
) -> list[bool]:
    """Find before which steps all former ones must be done.

    Between two barriers steps may run in any order or at once, so none may read what another writes, and no two may
    write the same byte. A barrier orders all steps before it, so only those since the last one count.

    Parameters
    ----------
    accesses
        For each step the ranges that it reads, and those that it writes.
    parts
        For each step a number, the same for steps that write disjoint bytes though their ranges overlap; None: it is
        none of such.

    Returns
    -------
    list of bool
        For each step whether a barrier comes before it.
    """
    found = []
    reads: list[Range] = []
    writes: list[tuple[Range, int | None]] = []
    for (step_reads, step_writes), part in zip(accesses, parts or [None] * len(accesses), strict=True):
        others = [write for write, other in writes if part is None or part != other]
        waits = _collide(step_reads, [write for write, _ in writes])
        waits = waits or _collide(step_writes, others) or _collide(step_writes, reads)
        found.append(waits)
        if waits:
            reads, writes = [], []
        reads.extend(step_reads)
        writes.extend((write, part) for write in step_writes)
    return found


def _collide(some: Sequence[Range], others: Sequence[Range]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)
