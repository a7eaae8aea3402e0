"""The planner's contract in its plainest form: pure Python, a few lines, slow. Tests run on both."""

from collections.abc import Mapping, Sequence

from .planner import Plan

__all__ = ["reference_plan"]

SMALLEST_STEP = 16


def reference_plan(
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    alignment: int | Sequence[int] = 64,
    *,
    pinned: Mapping[int, int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    order: Sequence[int] | None = None,
) -> Plan:
    """Plan offsets as `plan_offsets` does, by first fit: in the order given, then by decreasing size.

    Returns
    -------
    Plan
        Sound, and no better than it must be.
    """
    n = len(sizes)
    pins = dict(pinned or {})
    members = {i: [i] for i in range(n)}
    for group in groups or ():
        occupied = [i for i in group if sizes[i] > 0]
        pin = next((pins[i] for i in group if i in pins), None)
        for i in group:
            members[i] = occupied if sizes[i] > 0 else [i]
            if pin is not None:
                pins[i] = pin
    bytes_of = [max((sizes[j] for j in members[i]), default=0) if sizes[i] > 0 else 0 for i in range(n)]
    wanted = [*(order or ()), *sorted(range(n), key=lambda i: -bytes_of[i])]
    places = {i: offset for i, offset in pins.items() if sizes[i] > 0}
    for i in wanted:
        if i not in places and sizes[i] > 0:
            step = max(_step(sizes, j, alignment) for j in members[i])
            offset = _lowest_fit(members[i], bytes_of, step, first, last, places)
            places.update(dict.fromkeys(members[i], offset))
    offsets = [places.get(i, pins.get(i, 0)) for i in range(n)]
    return Plan(
        offsets=offsets,
        peak=max((offsets[i] + bytes_of[i] for i in range(n) if sizes[i] > 0), default=0),
        lower_bound=_lower_bound(bytes_of, first, last, members),
        order=list(dict.fromkeys(i for i in wanted if i not in pins)),
        rule="given" if order else "reference",
    )


def _step(sizes: Sequence[int], i: int, alignment: int | Sequence[int]) -> int:
    if not isinstance(alignment, int):
        return alignment[i]
    step = SMALLEST_STEP
    while step < min(sizes[i], alignment):
        step *= 2
    return min(step, alignment)


def _lowest_fit(
    parts: Sequence[int],
    bytes_of: Sequence[int],
    step: int,
    first: Sequence[int],
    last: Sequence[int],
    places: Mapping[int, int],
) -> int:
    size = bytes_of[parts[0]]
    taken = sorted(
        (offset, offset + bytes_of[j])
        for j, offset in places.items()
        if any(first[i] < last[j] and first[j] < last[i] for i in parts)
    )
    offset = 0
    for start, end in taken:
        if start < offset + size and end > offset:
            offset = -(-end // step) * step
    return offset


def _lower_bound(
    bytes_of: Sequence[int], first: Sequence[int], last: Sequence[int], members: Mapping[int, Sequence[int]]
) -> int:
    bound = 0
    for p in set(first):
        live = {members[i][0]: bytes_of[i] for i in range(len(bytes_of)) if bytes_of[i] and first[i] <= p < last[i]}
        bound = max(bound, sum(live.values()))
    return bound
