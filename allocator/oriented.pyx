"""Plans of many shapes of one model, most of them without a search.

A plan orders the buffers that live at the same time from the bottom up, and that order gives a plan for any sizes
(`native/orientation.h`), in time linear in the number of buffers. It is taken if it comes as close to the lower bound
as plans that are searched for do; otherwise there is a search, whose result is one more order to try.
"""

from cpython.array cimport array
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport free

from .arrays cimport int32s, int64s
from .lifetimes cimport grow
from .planner cimport OffsetPlanner, as_array

from .planner import Plan

__all__ = ["OrientedPlanner"]

cdef extern from "orientation.h" nogil:
    void forget_orientation(Orientation* orientation)
    bint orient(Orientation* orientation, int32_t n, const int32_t* first, const int32_t* last, int32_t positions,
                const int64_t* sizes, const int64_t* offsets)
    bint measure_live(const Orientation* orientation, const int64_t* sizes, const int64_t* steps, int64_t alignment,
                      int64_t* most, int64_t* most_rounded)
    int64_t replay_orientation(const Orientation* orientation, const int64_t* sizes, const int64_t* steps,
                               int64_t alignment, int64_t limit, int64_t* ends, int64_t* offsets)

cdef double SLACK = 0.0005              # above the bound that is always taken
cdef double LARGEST_EXCESS = 0.01       # above the bound that is taken if a search left as much elsewhere
cdef int MOST_SEARCHED = 4000           # buffers
cdef int MOST_FAILURES = 3              # of exact searches, each of which takes some milliseconds
cdef int64_t NODES_PER_BUFFER = 3       # of exact search: a way down without a failure takes one for each buffer


cdef class OrientedPlanner:
    """An `OffsetPlanner` that replays its plans for other sizes; not thread-safe.

    The orders are tried from the oldest on, and none is dropped as long as the lifetimes stay the same: sizes that were
    planned before get the same plan again.

    Parameters
    ----------
    planner : OffsetPlanner
        Searches when no replay is good enough: within 0.05 % of the bound that the planner aims at, or within what a
        search left above it for other sizes, up to 1 %. What it leaves above 0.05 % is searched exactly, for a limited
        number of nodes, so that plans are the same on every machine, until that has failed for some sizes.
    """

    def __cinit__(self, OffsetPlanner planner not None):
        self.planner = planner

    def __dealloc__(self):
        self.forget()
        free(self.ends)

    def find(
        self, sizes: Sequence[int], first: Sequence[int], last: Sequence[int], *, order: Sequence[int] = ()
    ) -> Plan:
        """Plan offsets as `OffsetPlanner.find` does; the rule is ``"replayed"`` or ``"searched"``.

        Raises
        ------
        ValueError
            Bad buffers or a bad order.
        SizeOverflowError
            A number or the sum of the sizes does not fit.
        """
        cdef int n = len(sizes)
        cdef int n_order = len(order)
        cdef int64_t peak = 0, lower_bound = 0
        if not len(first) == len(last) == n:
            raise ValueError(f"{n} sizes, {len(first)} first and {len(last)} last positions; expected as many of each")
        cdef array size_array = as_array("q", "sizes", sizes, n)
        cdef array first_array = as_array("i", "first", first, n)
        cdef array last_array = as_array("i", "last", last, n)
        cdef array order_array = as_array("i", "order", order, n_order)
        cdef array offsets = array("q", bytes(8 * (n + 1)))
        with nogil:
            self.plan(n, int64s(size_array), int32s(first_array), int32s(last_array), int32s(order_array), n_order,
                      int64s(offsets), &peak, &lower_bound, False)
        found = offsets.tolist()[:n]
        placed = sorted(range(n), key=found.__getitem__)
        return Plan(found, peak, lower_bound, placed, "replayed" if self.replayed else "searched")

    def replays(self, sizes: Sequence[int]) -> list[Plan]:
        """Plans for these sizes by every order that is kept, the oldest first, be they good or bad.

        None once the planner has met other lifetimes, in a call of its own or in one that failed.

        Raises
        ------
        ValueError
            Not as many sizes as there are lifetimes, or a negative one.
        SizeOverflowError
            A size or the sum of them does not fit.
        """
        cdef int k, n = self.planner.lifetimes.n
        cdef int64_t peak, lower_bound, target
        if self.count == 0 or self.planner.lifetimes.version != self.lifetimes:
            return []
        if len(sizes) != n:
            raise ValueError(f"{len(sizes)} sizes for {n} lifetimes")
        cdef array size_array = as_array("q", "sizes", sizes, n)
        cdef array offsets = array("q", bytes(8 * (n + 1)))
        self.planner.placement.begin(n, int64s(size_array))
        self.planner.lifetimes.bound(int64s(size_array), self.planner.placement.steps, &lower_bound, &target)
        plans = []
        for k in range(self.count):
            peak = replay_orientation(
                &self.known[k].orientation, int64s(size_array), self.planner.placement.steps, self.planner.alignment,
                INT64_MAX, self.ends, int64s(offsets),
            )
            order = [self.known[k].orientation.order[i] for i in range(n)]
            plans.append(Plan(offsets.tolist()[:n], peak, lower_bound, order, "replayed"))
        return plans

    cdef int plan(self, int n, const int64_t* sizes, const int32_t* first, const int32_t* last, const int32_t* order,
                  int n_order, int64_t* offsets, int64_t* peak, int64_t* lower_bound, bint again) except -1 nogil:
        self.replayed = False
        if n > 0 and self.count > 0 and not again:
            self.planner.lifetimes.learn(n, first, last)
        if self.count > 0 and n == self.planner.lifetimes.n and self.planner.lifetimes.version == self.lifetimes:
            self.replayed = self.replay(sizes, offsets, peak, lower_bound)
        if not self.replayed:
            self.planner.plan(n, sizes, first, last, order, n_order, offsets, peak, lower_bound)
            self.improve(sizes, offsets, peak)
        return 0

    cdef void forget(self) noexcept nogil:
        cdef int k
        for k in range(self.count):
            forget_orientation(&self.known[k].orientation)
        self.count = 0

    cdef bint replay(self, const int64_t* sizes, int64_t* offsets, int64_t* peak, int64_t* lower_bound) noexcept nogil:
        """Try what is known for these lifetimes; bad sizes are left to the planner to name."""
        cdef int64_t target
        cdef const int64_t* steps = self.planner.placement.alignments
        cdef int64_t alignment = self.planner.alignment
        cdef int k
        if not measure_live(&self.known[0].orientation, sizes, steps, alignment, lower_bound, &target):
            return False
        for k in range(self.count):
            peak[0] = replay_orientation(
                &self.known[k].orientation, sizes, steps, alignment,
                target + <int64_t>(target * max(SLACK, self.known[k].excess)) + 1, self.ends, offsets,
            )
            if peak[0] >= 0:
                return True
        return False

    cdef int improve(self, const int64_t* sizes, int64_t* offsets, int64_t* peak) except -1 nogil:
        """Go on from the plan that was just found if it is not close to the bound, and keep it if it is then."""
        cdef int64_t lower_bound, target, limit
        cdef int n = self.planner.lifetimes.n
        self.begin_lifetimes()
        self.planner.lifetimes.bound(sizes, self.planner.placement.steps, &lower_bound, &target)
        limit = target + <int64_t>(target * LARGEST_EXCESS)
        if (
            peak[0] > target + <int64_t>(target * SLACK) and n <= MOST_SEARCHED
            and self.count < MOST_ORIENTATIONS and self.failures < MOST_FAILURES
        ):
            # What would not be kept is not taken: these sizes could not get it again.
            self.failures += not self.planner.plan_exactly(target, limit, NODES_PER_BUFFER * n, offsets, peak)
        if peak[0] <= limit:
            self.remember(sizes, offsets, max(peak[0] / <double>max(target, 1) - 1, 0))
        return 0

    cdef void begin_lifetimes(self) noexcept nogil:
        """Forget what is known of other lifetimes than those planned last."""
        if self.planner.lifetimes.version != self.lifetimes:
            self.forget()
            self.failures = 0
            self.lifetimes = self.planner.lifetimes.version

    cdef int remember(self, const int64_t* sizes, const int64_t* offsets, double excess) except -1 nogil:
        """Keep a plan, to be replayed."""
        cdef int n = self.planner.lifetimes.n
        cdef Replayable* kept
        if n == 0 or self.count == MOST_ORIENTATIONS:
            return 0
        if n > self.capacity:
            self.capacity = 0
            if grow(<void**>&self.ends, n * sizeof(int64_t)) != 0:
                raise_memory()
            self.capacity = n
        kept = &self.known[self.count]
        if not orient(&kept.orientation, n, self.planner.lifetimes.starts_before, self.planner.lifetimes.starts_until,
                      n, sizes, offsets):
            raise_memory()
        kept.excess = excess
        self.count += 1
        return 0


cdef int raise_memory() except -1 with gil:
    raise MemoryError()
