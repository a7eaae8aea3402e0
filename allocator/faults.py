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
    SEPARATED = "separated group"
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
    alignment: int | Sequence[int] = 64,
    *,
    pinned: Mapping[int, int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    lower_bound: int | None = None,
) -> list[Fault]:
    """Find everything that is wrong with offsets.

    Parameters
    ----------
    offsets : sequence of int
        Byte offset of each buffer.
    peak : int
        Bytes that the plan says it needs.
    sizes, first, last, alignment, pinned, groups
        What was asked of `plan_offsets`.
    lower_bound : int, optional
        Largest sum of live sizes as the plan says; not looked at if left out.

    Returns
    -------
    list of Fault
        Empty if the plan is sound. Empty buffers need no room and overlap nothing.

    Raises
    ------
    ValueError
        What was asked makes no sense: lists of different lengths, an alignment below 1, an unknown buffer in a group.
    """
    pinned = pinned or {}
    _check_asked(len(sizes), first, last, alignment, groups or ())
    if len(offsets) != len(sizes):
        return [Fault(FaultKind.LENGTH, (), f"{len(offsets)} offsets for {len(sizes)} buffers")]
    steps = [
        _alignment_for(size, alignment) if isinstance(alignment, int) else alignment[i] for i, size in enumerate(sizes)
    ]
    faults = []
    for i, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        faults += _faults_of_one(i, offset, size, peak, steps[i], pinned)
    for group in groups or ():
        faults += _faults_of_group([i for i in group if sizes[i] > 0], offsets)
    sizes, owner = _whole_groups(sizes, groups or ())
    occupied = [i for i, size in enumerate(sizes) if size > 0]
    for position, i in enumerate(occupied):
        for j in occupied[position + 1 :]:
            together = first[i] < last[j] and first[j] < last[i] and owner[i] != owner[j]
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
        actual = _lower_bound(sizes, first, last, owner)
        if lower_bound != actual:
            message = f"lower bound is {lower_bound} bytes, the largest sum of live bytes is {actual}"
            faults.append(Fault(FaultKind.LOWER_BOUND, (), message))
    return faults


def verify(
    plan: Plan,
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    alignment: int | Sequence[int] = 64,
    *,
    pinned: Mapping[int, int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
) -> None:
    """Raise PlanError with the first fault of a plan, if it has any.

    Arguments as for `plan_offsets`, other errors as for `find_faults`.
    """
    faults = find_faults(
        plan.offsets,
        plan.peak,
        sizes,
        first,
        last,
        alignment,
        pinned=pinned,
        groups=groups,
        lower_bound=plan.lower_bound,
    )
    if faults:
        raise PlanError(f"{faults[0].kind}: {faults[0].message} ({len(faults)} faults in all)")


def _check_asked(
    n: int,
    first: Sequence[int],
    last: Sequence[int],
    alignment: int | Sequence[int],
    groups: Sequence[Sequence[int]],
) -> None:
    steps = [alignment] if isinstance(alignment, int) else alignment
    counts = {len(first), len(last), n if isinstance(alignment, int) else len(steps)}
    if counts != {n}:
        raise ValueError(f"{n} sizes, but another number of first or last positions or alignments")
    if any(step < 1 for step in steps):
        raise ValueError(f"alignment {min(steps)} is below 1")
    for group in groups:
        for i in group:
            if not 0 <= i < n:
                raise ValueError(f"groups: buffer {i} is not one of {n} buffers")


def _faults_of_one(i: int, offset: int, size: int, peak: int, step: int, pinned: Mapping[int, int]) -> list[Fault]:
    faults = []
    if offset < 0 or (size > 0 and offset + size > peak):
        message = f"buffer {i} of {size} bytes at offset {offset} is outside of {peak} bytes"
        faults.append(Fault(FaultKind.OUT_OF_RANGE, (i,), message))
    if i in pinned:
        if offset != pinned[i]:
            message = f"buffer {i} is at offset {offset}, but pinned at {pinned[i]}"
            faults.append(Fault(FaultKind.MOVED, (i,), message))
    elif offset % step:
        message = f"buffer {i} of {size} bytes is at offset {offset}, expected a multiple of {step}"
        faults.append(Fault(FaultKind.MISALIGNED, (i,), message))
    return faults


def _faults_of_group(members: Sequence[int], offsets: Sequence[int]) -> list[Fault]:
    places = sorted({offsets[i] for i in members})
    if len(places) < 2:
        return []
    message = f"buffers {', '.join(map(str, members))} must share one offset, they are at {', '.join(map(str, places))}"
    return [Fault(FaultKind.SEPARATED, tuple(members), message)]


def _whole_groups(sizes: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Each occupied member of a group needs the bytes of the largest; and the buffer that names the group."""
    whole, owner = list(sizes), list(range(len(sizes)))
    for group in groups:
        for i in group:
            whole[i] = max(sizes[j] for j in group) if sizes[i] > 0 else 0
            owner[i] = group[0]
    return whole, owner


def _alignment_for(size: int, alignment: int) -> int:
    """The rule of the planner: small buffers need only the next power of two, and at least 16."""
    enough = SMALLEST_ALIGNMENT
    while enough < size:
        enough *= 2
    return min(enough, alignment)


def _lower_bound(sizes: Sequence[int], first: Sequence[int], last: Sequence[int], owner: Sequence[int]) -> int:
    largest = 0
    for p in set(first):
        live = {owner[i]: sizes[i] for i in range(len(sizes)) if sizes[i] > 0 and first[i] <= p < last[i]}
        largest = max(largest, sum(live.values()))
    return largest
