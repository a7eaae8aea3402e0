"""Improving the plan of a shape that is run often, in the background, while runs go on with the plan they have."""

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from .exact import FOUND, INFEASIBLE, ExactSearch
from .groups import found_plan, leaders_of, pin_whole_groups, split_alignment
from .offsets import plan_offsets
from .planner import Plan

__all__ = ["AnytimePlanner"]

FIRST_NODES = 2_000
LARGEST_NODES = 1 << 40


class AnytimePlanner:
    """A plan that gets better: `plan` is always whole, and is replaced in one step when a search finds a lower peak.

    The search runs without the GIL in a thread of its own. Plans never change in place, so a run keeps the one it has
    started with and takes the next between two runs. All methods may be called from any thread.

    Parameters
    ----------
    sizes, first, last, alignment, pinned, groups, order
        As for `plan_offsets`, which makes the first plan.
    timeout : float, optional
        Seconds of search after which it gives up, 10 by default.

    Attributes
    ----------
    plan : Plan
        The best so far.

    Raises
    ------
    ValueError, SizeOverflowError
        As for `plan_offsets`, and for a negative timeout.

    Examples
    --------
    >>> with AnytimePlanner(sizes, first, last) as planner:
    ...     while running:
    ...         plan = planner.take() or plan
    """

    def __init__(
        self,
        sizes: Sequence[int],
        first: Sequence[int],
        last: Sequence[int],
        alignment: int | Sequence[int] = 64,
        *,
        pinned: Mapping[int, int] | None = None,
        groups: Sequence[Sequence[int]] | None = None,
        order: Sequence[int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        if timeout < 0:
            raise ValueError(f"timeout {timeout} is negative")
        self.plan = plan_offsets(sizes, first, last, alignment, pinned=pinned, groups=groups, order=order)
        self._sizes = list(sizes)
        leader = leaders_of(groups or (), len(self._sizes))
        self._pinned = pin_whole_groups(leader, dict(pinned or {}))
        self._left_ns = int(min(timeout, 1e9) * 1e9)
        self._taken: Plan | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._search = ExactSearch()
        common, steps = split_alignment(alignment)
        self._searchable = self.plan.peak > self.plan.lower_bound and self._search.load(
            sizes,
            first,
            last,
            common,
            pinned=self._pinned,
            leader=leader,
            alignments=steps,
        )

    @property
    def running(self) -> bool:
        """Whether the search is still at it: False before it starts and after it has ended, for whatever reason."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to search, once; does nothing if the plan cannot be better."""
        with self._lock:
            if self._thread is None and self._searchable and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._improve, name="etarena-anytime", daemon=True)
                self._thread.start()

    def take(self) -> Plan | None:
        """Give the plan if it is not the one that was taken last, else None."""
        with self._lock:
            if self.plan is self._taken:
                return None
            self._taken = self.plan
            return self.plan

    def wait(self, timeout: float | None = None) -> Plan:
        """Wait until the search has ended, or for some seconds, and give the best plan."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self.plan

    def close(self) -> None:
        """End the search and wait for its thread; the plan stays."""
        with self._lock:
            self._stopped.set()
            self._search.cancel()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        """Start to search."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the search."""
        self.close()

    def _improve(self) -> None:
        """Search in slices of growing size; each continues below the best plan so far."""
        nodes = FIRST_NODES
        while not self._stopped.is_set() and self._left_ns > 0 and self.plan.peak > self.plan.lower_bound:
            begin = time.monotonic_ns()
            status, peak, offsets = self._search.lower(self.plan.lower_bound, self.plan.peak, nodes, self._left_ns)
            self._left_ns -= time.monotonic_ns() - begin
            if status == INFEASIBLE:
                return
            if status == FOUND:
                self._swap(peak, offsets)
            nodes = min(2 * nodes, LARGEST_NODES)

    def _swap(self, peak: int, offsets: list[int]) -> None:
        plan = found_plan(offsets, peak, self.plan.lower_bound, "exact", self._sizes, self._pinned)
        with self._lock:
            self.plan = plan
