"""Proof that a plan is sound, by code that shares nothing with the planner: every pair of buffers is looked at."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from .errors import PlanError
from .planner import Plan

__all__ = ["Fault", "FaultKind", "find_faults", "verify"]

SMALLEST_ALIGNMENT = 16


class FaultKind(StrEnum):
    """What can be wrong with a plan."""

    LENGTH = "wrong number of offsets"
    OUT_OF_RANGE = "out of range"
    MISALIGNED = "misaligned"
    OVERLAP = "overlap"
    MOVED = "moved pinned buffer"
    PEAK = "wrong peak"
    LOWER_BOUND = "wrong lower bound"


class Fault(NamedTuple):
    """One fault: its kind, the buffers concerned, and a sentence with the numbers."""

    kind: FaultKind
    buffers: tuple[int, ...]
    message: str


def find_faults(
    offsets: Sequence[int],
    peak: int,
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    alignment: int = 64,
    *,
    pinned: Mapping[int, int] | None = None,
    lower_bound: int | None = None,
) -> list[Fault]:
    """Find everything that is wrong with offsets.

    Parameters
    ----------
    offsets : sequence of int
        Byte offset of each buffer.
    peak : int
        Bytes that the plan says it needs.
    sizes, first, last, alignment, pinned
        What was asked of `plan_offsets`.
    lower_bound : int, optional
        Largest sum of live sizes as the plan says; not looked at if left out.

    Returns
    -------
    list of Fault
        Empty if the plan is sound. Empty buffers need no room and overlap nothing.
    """
    pinned = pinned or {}
    if len(offsets) != len(sizes):
        return [Fault(FaultKind.LENGTH, (), f"{len(offsets)} offsets for {len(sizes)} buffers")]
    faults = []
    for i, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        faults += _faults_of_one(i, offset, size, peak, alignment, pinned)
    occupied = [i for i, size in enumerate(sizes) if size > 0]
    for position, i in enumerate(occupied):
        for j in occupied[position + 1 :]:
            together = first[i] < last[j] and first[j] < last[i]
            if together and offsets[i] < offsets[j] + sizes[j] and offsets[j] < offsets[i] + sizes[i]:
                message = (
                    f"buffers {i} and {j} both live at position {max(first[i], first[j])} and share bytes from "
                    f"{max(offsets[i], offsets[j])}"
                )
                faults.append(Fault(FaultKind.OVERLAP, (i, j), message))
    needed = max((offsets[i] + sizes[i] for i in occupied), default=0)
    if peak != needed:
        faults.append(Fault(FaultKind.PEAK, (), f"peak is {peak} bytes, the buffers end at {needed}"))
    if lower_bound is not None:
        actual = _lower_bound(sizes, first, last)
        if lower_bound != actual:
            message = f"lower bound is {lower_bound} bytes, the largest sum of live bytes is {actual}"
            faults.append(Fault(FaultKind.LOWER_BOUND, (), message))
    return faults


def verify(
    plan: Plan,
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    alignment: int = 64,
    *,
    pinned: Mapping[int, int] | None = None,
) -> None:
    """Raise PlanError with the first fault of a plan, if it has any; arguments as for `plan_offsets`."""
    faults = find_faults(
        plan.offsets, plan.peak, sizes, first, last, alignment, pinned=pinned, lower_bound=plan.lower_bound
    )
    if faults:
        raise PlanError(f"{faults[0].kind}: {faults[0].message} ({len(faults)} faults in all)")


def _faults_of_one(i: int, offset: int, size: int, peak: int, alignment: int, pinned: Mapping[int, int]) -> list[Fault]:
    faults = []
    if offset < 0 or (size > 0 and offset + size > peak):
        message = f"buffer {i} of {size} bytes at offset {offset} is outside of {peak} bytes"
        faults.append(Fault(FaultKind.OUT_OF_RANGE, (i,), message))
    if i in pinned:
        if offset != pinned[i]:
            message = f"buffer {i} is at offset {offset}, but pinned at {pinned[i]}"
            faults.append(Fault(FaultKind.MOVED, (i,), message))
    elif offset % _alignment_for(size, alignment):
        expected = _alignment_for(size, alignment)
        message = f"buffer {i} of {size} bytes is at offset {offset}, expected a multiple of {expected}"
        faults.append(Fault(FaultKind.MISALIGNED, (i,), message))
    return faults


def _alignment_for(size: int, alignment: int) -> int:
    """The rule of the planner: small buffers need only the next power of two, and at least 16."""
    enough = SMALLEST_ALIGNMENT
    while enough < size:
        enough *= 2
    return min(enough, alignment)


def _lower_bound(sizes: Sequence[int], first: Sequence[int], last: Sequence[int]) -> int:
    lives = list(zip(sizes, first, last, strict=True))
    return max((sum(size for size, start, end in lives if start <= p < end) for p in set(first)), default=0)
