"""From lives to places: a pool for every storage, and offsets in each pool.

Pools with a size that is too small give up storages that may also be elsewhere, the smallest that makes the rest fit
first; each may move only forward along its choices, so this ends.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..allocator.errors import ArenaFullError, ExportError
from ..allocator.groups import plan_groups
from ..allocator.offsets import plan_exact
from ..allocator.planner import OffsetPlanner

__all__ = ["PlacedPool", "Request", "place_in_pools"]

Piece = tuple[int, int]
SHOWN = 4
TIGHT_NS = 1_000_000_000
EFFORT = 8
"""Microseconds a buffer that repair may take: more than at run time, where one is enough."""


@dataclass
class Request:
    """A storage that needs a place.

    Parameters
    ----------
    name : str
        For people.
    nbytes : int
        Its bytes, rounded up to the alignment.
    pieces : list of (int, int)
        Half-open ranges of positions where it is alive.
    choices : tuple of int
        Pools that it may be in, best first.
    """

    name: str
    nbytes: int
    pieces: list[Piece]
    choices: tuple[int, ...]
    choice: int = 0
    offset: int = 0

    @property
    def pool(self) -> int:
        """The pool that it is in, or is tried in."""
        return self.choices[self.choice]


@dataclass
class PlacedPool:
    """Offsets in one pool: the bytes that it needs, the largest sum of live bytes, and how offsets were found."""

    nbytes: int = 0
    lower_bound: int = 0
    rule: str = ""
    requests: list[Request] = field(default_factory=list)


def place_in_pools(
    requests: Sequence[Request],
    limits: Mapping[int, int | None],
    alignment: int,
    budget_ns: int,
    padding: int,
) -> dict[int, PlacedPool]:
    """Give every request a pool and an offset.

    Parameters
    ----------
    requests : sequence of Request
        What needs a place; `choice` and `offset` are set.
    limits : mapping of int to int or None
        Bytes of each pool, None for as many as it takes.
    alignment : int
        Of every offset, in bytes.
    budget_ns : int
        Time for exact search of one pool, if the heuristics miss the lower bound.
    padding : int
        Bytes that have to follow the last buffer of a pool.

    Raises
    ------
    ExportError
        A pool is too small for what can be nowhere else; says what did not fit, and by how many bytes.
    """
    placed: dict[int, PlacedPool] = {}
    waiting = sorted({request.pool for request in requests})
    while waiting:
        pool = waiting.pop(0)
        members = [request for request in requests if request.pool == pool]
        placed[pool], moved = _fill(pool, members, limits[pool], alignment, budget_ns, padding)
        waiting += sorted({request.pool for request in moved} - set(waiting))
    for found in placed.values():
        found.nbytes += padding if found.nbytes else 0
    return placed


def _fill(
    pool: int, members: list[Request], limit: int | None, alignment: int, budget_ns: int, padding: int
) -> tuple[PlacedPool, list[Request]]:
    """Place what fits into a pool, and send the others on; all rounds together search as long as one may."""
    if limit is None:
        return _place(members, alignment, budget_ns), []
    room, tight_ns = limit - padding, TIGHT_NS
    moved: list[Request] = []
    while True:
        highest, live = _fullest(members)
        started = time.perf_counter_ns()
        found = _place(members, alignment, max(budget_ns, 0) if highest <= room else 0)
        budget_ns -= time.perf_counter_ns() - started
        excess = found.nbytes - room if found.nbytes else 0
        if excess > 0 and highest <= room and tight_ns > 0:
            started = time.perf_counter_ns()
            found, excess = _tightly(members, alignment, room, found, excess, tight_ns)
            tight_ns -= time.perf_counter_ns() - started
        if excess <= 0 or not members:
            return found, moved
        crowd = live if highest > room else [request for request in members if request.offset + request.nbytes > room]
        chosen = _give_up(members, crowd, excess)
        if chosen is None:
            raise _too_small(crowd, highest, excess, pool, limit, padding)
        members.remove(chosen)
        moved.append(chosen)


def _place(members: Sequence[Request], alignment: int, budget_ns: int) -> PlacedPool:
    sizes: list[int] = []
    first: list[int] = []
    last: list[int] = []
    groups: list[range] = []
    starts: list[int] = []
    for request in members:
        at = len(sizes)
        starts.append(at)
        for begin, end in request.pieces:
            sizes.append(request.nbytes)
            first.append(begin)
            last.append(end)
        if len(sizes) > at + 1:
            groups.append(range(at, len(sizes)))
    planner = OffsetPlanner(alignment, effort=EFFORT, budget_ns=budget_ns, thorough=budget_ns > 0)
    steps = [alignment] * len(sizes)
    plan = plan_groups(planner, sizes, first, last, groups, alignments=steps)
    for request, at in zip(members, starts, strict=True):
        request.offset = plan.offsets[at]
    return PlacedPool(plan.peak, plan.lower_bound, plan.rule, list(members))


def _tightly(
    members: Sequence[Request], alignment: int, capacity: int, found: PlacedPool, excess: int, timeout_ns: int
) -> tuple[PlacedPool, int]:
    """Search exactly for offsets in a pool that could be large enough."""
    pieces = [(request, piece) for request in members for piece in request.pieces]
    at: dict[int, list[int]] = {}
    for position, (request, _) in enumerate(pieces):
        at.setdefault(id(request), []).append(position)
    try:
        plan = plan_exact(
            [request.nbytes for request, _ in pieces],
            [piece[0] for _, piece in pieces],
            [piece[1] for _, piece in pieces],
            [alignment] * len(pieces),
            capacity,
            timeout=timeout_ns / 1e9,
            groups=[group for group in at.values() if len(group) > 1],
        )
    except ArenaFullError:
        return found, excess
    for request in members:
        request.offset = plan.offsets[at[id(request)][0]]
    return PlacedPool(plan.peak, plan.lower_bound, plan.rule, list(members)), 0


def _give_up(members: Sequence[Request], crowd: Sequence[Request], excess: int) -> Request | None:
    """Send one request of a crowd to its next choice: the smallest that frees enough, else the largest."""
    movable = [request for request in crowd if request.choice + 1 < len(request.choices)]
    movable = movable or [request for request in members if request.choice + 1 < len(request.choices)]
    if not movable:
        return None
    enough = [request for request in movable if request.nbytes >= excess]
    chosen = min(enough, key=lambda request: request.nbytes) if enough else max(movable, key=lambda item: item.nbytes)
    chosen.choice += 1
    return chosen


def _fullest(members: Sequence[Request]) -> tuple[int, list[Request]]:
    """The largest sum of live bytes, and what is live there."""
    changes: dict[int, int] = {}
    for request in members:
        for first, last in request.pieces:
            changes[first] = changes.get(first, 0) + request.nbytes
            changes[last] = changes.get(last, 0) - request.nbytes
    highest = live = at = 0
    for position in sorted(changes):
        live += changes[position]
        if live > highest:
            highest, at = live, position
    return highest, [request for request in members if any(first <= at < last for first, last in request.pieces)]


def _too_small(crowd: Sequence[Request], highest: int, excess: int, pool: int, limit: int, padding: int) -> ExportError:
    largest = sorted(crowd, key=lambda request: -request.nbytes)
    names = ", ".join(f"{request.name!r} ({request.nbytes:,} bytes)" for request in largest[:SHOWN])
    more = f" and {len(largest) - SHOWN} more" if len(largest) > SHOWN else ""
    extra = f" ({padding} of them behind the last buffer, for XNNPACK)" if padding else ""
    return ExportError(
        f"memory id {pool} has {limit:,} bytes, {excess:,} too few: {limit + excess:,} are needed{extra}, "
        f"{highest:,} are live at one time; what does not fit: {names}{more}. Give the pool more bytes, or let "
        "`prefer` name another pool for some of them"
    )


def budget_after(started_ns: int) -> int:
    """A budget as long as what was spent so far: search at most doubles the time of planning."""
    return max(time.perf_counter_ns() - started_ns, 1)
