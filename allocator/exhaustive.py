"""Plans for export time: within a given capacity, or as low as exact search gets in the time it is given."""

from collections.abc import Mapping, Sequence

from .errors import ArenaFullError
from .exact import ExactSearch
from .groups import found_plan, leaders_of, pin_whole_groups, plan_groups, storage_bytes
from .planner import OffsetPlanner, Plan

__all__ = ["plan_exact"]

UNLIMITED = 1 << 60
FOUND, INFEASIBLE, STOPPED = 1, 0, -1


def plan_exact(
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    alignment: int | Sequence[int] = 64,
    capacity: int | None = None,
    *,
    timeout: float = 10.0,
    max_nodes: int = UNLIMITED,
    pinned: Mapping[int, int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
) -> Plan:
    """Find offsets by exact search.

    Parameters
    ----------
    sizes, first, last, alignment, pinned, groups
        As for `plan_offsets`.
    capacity : int, optional
        Bytes that the plan may need. By default the lower bound is tried first, then capacities between it and the
        best plan known, until there is no better one.
    timeout : float, optional
        Seconds that the search may take, 10 by default.
    max_nodes : int, optional
        Nodes that the search may visit, some microseconds each; with this limit, if it is met first, plans are the same
        on every machine.

    Returns
    -------
    Plan
        With a capacity the first plan that fits, else the best one found.

    Raises
    ------
    ArenaFullError
        No plan fits the capacity, or none was found in time; the message says which.
    ValueError, SizeOverflowError
        As for `plan_offsets`, and for a capacity, timeout or max_nodes that is negative.
    """
    if min(timeout, max_nodes, 0 if capacity is None else capacity) < 0:
        raise ValueError(f"capacity {capacity}, timeout {timeout} or max_nodes {max_nodes} is negative")
    limit = int(min(timeout, 1e9) * 1e9)
    alignments = None if isinstance(alignment, int) else alignment
    planner = OffsetPlanner(
        alignment if isinstance(alignment, int) else 64,
        budget_ns=limit if capacity is None else 0,
        max_nodes=min(max_nodes, UNLIMITED),
        thorough=True,
    )
    if groups:
        plan = plan_groups(planner, sizes, first, last, groups, pinned=pinned, alignments=alignments)
    else:
        plan = planner.find(sizes, first, last, pinned=pinned, alignments=alignments)
    if capacity is None or plan.peak <= capacity:
        return plan
    search = ExactSearch()
    leader = leaders_of(groups or (), len(sizes))
    pins = pin_whole_groups(leader, dict(pinned or {}))
    status = STOPPED
    if search.load(sizes, first, last, planner.alignment, pinned=pins, leader=leader, alignments=alignments):
        status, offsets = search.within(capacity, planner.max_nodes, limit)
    if status != FOUND:
        raise _not_found(capacity, plan, timeout, proven=status == INFEASIBLE)
    storage = storage_bytes(sizes, leader)
    peak = max((offsets[i] + storage[leader[i]] for i, size in enumerate(sizes) if size > 0), default=0)
    return found_plan(offsets, peak, plan.lower_bound, "exact", sizes, pins)


def _not_found(capacity: int, plan: Plan, timeout: float, *, proven: bool) -> ArenaFullError:
    reason = "no offsets fit" if proven else f"no offsets were found within {timeout} s that fit"
    return ArenaFullError(
        f"{reason} {capacity} bytes: the lower bound is {plan.lower_bound} bytes, the best plan known needs {plan.peak}; "
        f"allow more bytes{'' if proven else ' or more time'}"
    )
