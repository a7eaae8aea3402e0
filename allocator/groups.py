"""Buffers that share one offset: aliases of a storage, or one buffer whose lifetime has gaps."""

from collections.abc import Mapping, Sequence

from .exact import FOUND, UNLIMITED, ExactSearch
from .planner import OffsetPlanner, Plan

__all__ = ["found_plan", "leaders_of", "pin_whole_groups", "plan_groups", "split_alignment", "storage_bytes"]

DEFAULT_ALIGNMENT = 64
QUICK_NODES = 2000
QUICK_NS = 5_000_000


def split_alignment(alignment: int | Sequence[int]) -> tuple[int, Sequence[int] | None]:
    """The planner's alignment, and one for each buffer where they have their own."""
    return (alignment, None) if isinstance(alignment, int) else (DEFAULT_ALIGNMENT, alignment)


def plan_groups(
    planner: OffsetPlanner,
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    groups: Sequence[Sequence[int]],
    *,
    pinned: Mapping[int, int] | None = None,
    order: Sequence[int] | None = None,
    alignments: Sequence[int] | None = None,
) -> Plan:
    """Plan offsets as `plan_offsets` does for buffers of which some may have to share their offset.

    Groups are planned as if they had no gaps first, then placed in the order found with their gaps open to others, and
    then improved by exact search: as the planner's budget says, or for some milliseconds if it has none and an effort
    above 0.

    Raises
    ------
    ValueError
        A group names an unknown buffer or one of another group, or members are pinned to different offsets; also what
        `plan_offsets` refuses.
    """
    if not groups:
        return planner.find(sizes, first, last, pinned=pinned, order=order, alignments=alignments)
    leader = leaders_of(groups, len(sizes))
    pinned = pin_whole_groups(leader, dict(pinned or {}))
    steps = alignments and _common_alignments(alignments, sizes, leader)
    whole = planner.find(*_without_gaps(sizes, first, last, leader), pinned=pinned, order=order, alignments=steps)
    search = ExactSearch()
    if not search.load(sizes, first, last, planner.alignment, pinned=pinned, leader=leader, alignments=alignments):
        return whole
    bound = _lower_bound(sizes, first, last, leader)
    peak, offsets, rule = whole.peak, [whole.offsets[i] for i in leader], whole.rule
    for candidate, name in ((whole.order, whole.rule), (order, "given")):
        if candidate is not None:
            fitted_peak, fitted = search.fit(candidate)
            if fitted_peak < peak or (name == "given" and fitted_peak == peak):
                peak, offsets, rule = fitted_peak, fitted, name
    if peak > bound and (planner.exactly or planner.effort):
        nodes, limit = QUICK_NODES, QUICK_NS
        if planner.exactly:
            nodes, limit = planner.max_nodes, planner.budget_ns or UNLIMITED
        status, lower, better = search.lower(bound, peak, nodes, limit)
        if status == FOUND:
            peak, offsets, rule = lower, better, "exact"
    return found_plan(offsets, peak, bound, rule, sizes, pinned)


def found_plan(
    offsets: Sequence[int], peak: int, lower_bound: int, rule: str, sizes: Sequence[int], pinned: Mapping[int, int]
) -> Plan:
    """Make a plan of offsets found for the buffers that are not empty; first fit in its order gives it again."""
    places = [
        offset if size > 0 else pinned.get(i, 0) for i, (offset, size) in enumerate(zip(offsets, sizes, strict=True))
    ]
    order = sorted((i for i in range(len(sizes)) if i not in pinned), key=lambda i: (places[i], i))
    return Plan(offsets=places, peak=peak, lower_bound=lower_bound, order=order, rule=rule)


def leaders_of(groups: Sequence[Sequence[int]], n: int) -> list[int]:
    """For each of n buffers the first one of its group, which is itself if it has none."""
    leader = list(range(n))
    seen: set[int] = set()
    for group in groups:
        for i in group:
            if not 0 <= i < n or i in seen:
                raise ValueError(f"groups: buffer {i} is in two groups or is not one of {n} buffers")
            seen.add(i)
            leader[i] = min(group)
    return leader


def pin_whole_groups(leader: Sequence[int], pinned: dict[int, int]) -> dict[int, int]:
    """Pin all members of a group where one of them is pinned."""
    place: dict[int, int] = {}
    for i, offset in pinned.items():
        if 0 <= i < len(leader) and place.setdefault(leader[i], offset) != offset:
            raise ValueError(f"groups: buffer {i} is pinned at {offset}, another of its group at {place[leader[i]]}")
    return pinned | {i: place[head] for i, head in enumerate(leader) if head in place}


def storage_bytes(sizes: Sequence[int], leader: Sequence[int]) -> list[int]:
    """Bytes of each group at its leader: those of its largest member."""
    largest = [0] * len(sizes)
    for i, head in enumerate(leader):
        largest[head] = max(largest[head], sizes[i])
    return largest


def _common_alignments(alignments: Sequence[int], sizes: Sequence[int], leader: Sequence[int]) -> list[int]:
    """Leaders with the largest alignment that a member with bytes asks for."""
    steps = list(alignments)
    for i, head in enumerate(leader):
        if sizes[i] > 0 and i != head:
            steps[head] = max(steps[head], alignments[i])
    return steps


def _without_gaps(
    sizes: Sequence[int], first: Sequence[int], last: Sequence[int], leader: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Leaders that stand for their whole group; the other members become empty."""
    whole = list(sizes), list(first), list(last)
    for i, head in enumerate(leader):
        if i != head:
            if sizes[i] > 0:
                whole[1][head] = min(first[i], whole[1][head]) if whole[0][head] else first[i]
                whole[2][head] = max(last[i], whole[2][head]) if whole[0][head] else last[i]
            whole[0][head] = max(whole[0][head], sizes[i])
            whole[0][i] = 0
    return whole


def _lower_bound(sizes: Sequence[int], first: Sequence[int], last: Sequence[int], leader: Sequence[int]) -> int:
    """Largest sum of the groups that are live at one position."""
    storage = storage_bytes(sizes, leader)
    events = sorted(
        [(first[i], 1, leader[i]) for i in range(len(sizes)) if sizes[i]]
        + [(last[i], -1, leader[i]) for i in range(len(sizes)) if sizes[i]]
    )
    live = [0] * len(sizes)
    total = highest = 0
    for _, change, head in events:  # ends come before starts at the same position
        total += storage[head] * ((live[head] + change > 0) - (live[head] > 0))
        live[head] += change
        highest = max(highest, total)
    return highest
