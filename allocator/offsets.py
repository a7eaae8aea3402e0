"""Offsets for buffers: the two ways to ask for them, quickly and exactly."""

from collections.abc import Mapping, Sequence
from typing import Literal

from .errors import ArenaFullError
from .exact import FOUND, INFEASIBLE, STOPPED, UNLIMITED, ExactSearch
from .groups import found_plan, leaders_of, pin_whole_groups, plan_groups, split_alignment, storage_bytes
from .planner import OffsetPlanner, Plan
from .rules import RULES

__all__ = ["plan_exact", "plan_offsets"]

EXPORT_BUDGET = 5_000_000_000  # ns


def plan_offsets(
    sizes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
    alignment: int | Sequence[int] = 64,
    *,
    pinned: Mapping[int, int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    order: Sequence[int] | None = None,
    effort: int | Literal["export"] = 1,
    budget_ns: int = 0,
    rules: Sequence[str] = RULES,
) -> Plan:
    """Find offsets for buffers so that no two that live at the same time overlap.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of each buffer; empty buffers are in nobody's way.
    first, last : sequence of int
        Buffer ``i`` lives at the positions ``first[i] <= p < last[i]``.
    alignment : int or sequence of int, optional
        Power of two; see `OffsetPlanner`. A sequence gives each buffer its own, which is taken as it is.
    pinned : mapping of int to int, optional
        Buffers that must have the given offset; they may be aligned in any way.
    groups : sequence of sequences of int, optional
        Buffers that must share one offset: aliases of one storage, or the parts of a buffer whose lifetime has gaps. A
        group has the bytes of its largest member, and is live wherever a member is.
    order : sequence of int, optional
        Buffers to place first, in this order; tried before any rule.
    effort : int or "export", optional
        How much search is worth it, in units of about a microsecond for each buffer: 1 suits run time, 0 means rules
        only. "export" takes what it needs, up to five seconds unless `budget_ns` says otherwise, to reach the lower
        bound or to prove that it cannot be reached.
    budget_ns : int, optional
        Time in ns, all in all: what is left of it after that is spent on exact search. 0 means none.
    rules : sequence of str, optional
        Which of `RULES` are tried, in the order of `RULES`.

    Returns
    -------
    Plan
        The best found; without a budget the same for the same arguments on every machine.

    Raises
    ------
    ValueError
        Lists of different lengths, a negative size, an empty lifetime, an unknown buffer in `pinned`, `groups` or
        `order`, pins that overlap, or bad options.
    SizeOverflowError
        The sizes have more than 2**61 bytes together, or a number does not fit.
    """
    common, alignments = split_alignment(alignment)
    planner = OffsetPlanner(
        common,
        effort=1 if effort == "export" else effort,
        rules=rules,
        budget_ns=budget_ns or (EXPORT_BUDGET if effort == "export" else 0),
        thorough=effort == "export",
    )
    return plan_groups(planner, sizes, first, last, groups or (), pinned=pinned, order=order, alignments=alignments)


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
    common, alignments = split_alignment(alignment)
    planner = OffsetPlanner(
        common,
        budget_ns=max(limit, 1) if capacity is None else 0,
        max_nodes=min(max_nodes, UNLIMITED) if capacity is None else None,
        thorough=True,
    )
    plan = plan_groups(planner, sizes, first, last, groups or (), pinned=pinned, alignments=alignments)
    if capacity is None or plan.peak <= capacity:
        return plan
    search = ExactSearch()
    leader = leaders_of(groups or (), len(sizes))
    pins = pin_whole_groups(leader, dict(pinned or {}))
    status = STOPPED
    if search.load(sizes, first, last, planner.alignment, pinned=pins, leader=leader, alignments=alignments):
        status, offsets = search.within(capacity, min(max_nodes, UNLIMITED), limit)
    if status != FOUND:
        raise _not_found(capacity, plan, timeout, proven=status == INFEASIBLE)
    storage = storage_bytes(sizes, leader)
    peak = max((offsets[i] + storage[leader[i]] for i, size in enumerate(sizes) if size > 0), default=0)
    return found_plan(offsets, peak, plan.lower_bound, "exact", sizes, pins)


def _not_found(capacity: int, plan: Plan, timeout: float, *, proven: bool) -> ArenaFullError:
    reason = "no offsets fit" if proven else f"no offsets were found within {timeout} s that fit"
    return ArenaFullError(
        f"{reason} {capacity} bytes: the lower bound is {plan.lower_bound} bytes, the best plan known needs "
        f"{plan.peak}; allow more bytes{'' if proven else ' or more time'}"
    )
