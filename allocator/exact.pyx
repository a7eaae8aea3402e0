"""Exact search for offsets, for Cython callers: owns one C search (see exact_search.c) and its view of a problem."""

from cpython.array cimport array
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from .arrays cimport int32s, int64s
from .lifetimes cimport grow
from .placement cimport step_for

__all__ = ["FOUND", "INFEASIBLE", "STOPPED", "UNLIMITED", "ExactSearch"]

FOUND, INFEASIBLE, STOPPED = EXACT_FOUND, EXACT_INFEASIBLE, EXACT_STOPPED
UNLIMITED = 1 << 60  # nodes, or ns from now: sums with the clock stay within 64 bits


cdef int64_t clock_ns() noexcept nogil:
    return exact_clock()


cdef class ExactSearch:
    """A problem that is searched for offsets; scratch memory of a planner."""

    def __dealloc__(self):
        exact_free(self.c_obj)
        free(self.place)
        free(self.sizes)
        free(self.steps)
        free(self.pins)
        free(self.offsets)
        free(self.owner)
        free(self.first)
        free(self.last)

    cdef bint prepare(self, int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins,
                      const int32_t* leader, const int32_t* first, const int32_t* last) noexcept nogil:
        cdef int pieces
        exact_free(self.c_obj)
        self.c_obj = NULL
        if self.reserve(n) != 0:
            return False
        pieces = self.collect(n, sizes, steps, pins, leader, first, last)
        if pieces == 0:
            return False
        self.c_obj = exact_new(
            self.count, self.sizes, self.steps, self.pins, pieces, self.owner, self.first, self.last
        )
        return self.c_obj is not NULL

    cdef int collect(self, int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins,
                     const int32_t* leader, const int32_t* first, const int32_t* last) noexcept nogil:
        """Leave out what is empty, join what is grouped; gives the number of pieces."""
        cdef int i, k, pieces
        pieces = 0
        self.n = n
        self.count = 0
        for i in range(n):
            self.place[i] = -1
        for i in range(n):
            if sizes[i] == 0:
                continue
            k = leader[i] if leader is not NULL else i
            if self.place[k] < 0:       # the leader itself may be empty and still name the group
                self.place[k] = self.count
                self.sizes[self.count] = self.steps[self.count] = 0
                self.pins[self.count] = -1
                self.count += 1
            k = self.place[k]
            self.place[i] = k
            self.sizes[k] = max(self.sizes[k], sizes[i])
            self.steps[k] = max(self.steps[k], steps[i])
            if pins is not NULL and pins[i] >= 0:
                self.pins[k] = pins[i]
            self.owner[pieces] = k
            self.first[pieces] = first[i]
            self.last[pieces] = last[i]
            pieces += 1
        return pieces

    cdef exact_status solve(self, int64_t capacity, int64_t max_nodes, int64_t deadline,
                            int64_t* offsets) noexcept nogil:
        cdef exact_status status = exact_solve(
            self.c_obj, capacity, max_nodes, deadline, &self.cancelled, self.offsets
        )
        if status == EXACT_FOUND:
            self.give(offsets)
        return status

    cdef exact_status improve(self, int64_t bound, int64_t* peak, int64_t max_nodes, int64_t deadline,
                              int64_t* offsets) noexcept nogil:
        cdef exact_status status = exact_improve(
            self.c_obj, bound, peak, max_nodes, deadline, &self.cancelled, self.offsets
        )
        if status == EXACT_FOUND:
            self.give(offsets)
        return status

    cdef int64_t first_fit(self, const int32_t* order, int n_order, int64_t* offsets) noexcept nogil:
        cdef int i, k
        cdef int count = 0
        cdef int64_t peak
        for k in range(self.count):
            self.offsets[k] = -1        # not yet in the order
        for k in range(n_order + self.n):
            i = order[k] if k < n_order else k - n_order
            i = self.place[i]
            if i >= 0 and self.offsets[i] < 0:
                self.offsets[i] = 0
                self.owner[count] = i
                count += 1
        peak = exact_first_fit(self.c_obj, self.owner, self.offsets)
        self.give(offsets)
        return peak

    cdef int64_t nodes(self) noexcept nogil:
        return exact_nodes(self.c_obj)

    cdef void give(self, int64_t* offsets) noexcept nogil:
        cdef int i
        for i in range(self.n):
            offsets[i] = self.offsets[self.place[i]] if self.place[i] >= 0 else 0

    cdef int reserve(self, int n) noexcept nogil:
        cdef size_t count = n + 1
        if n < self.capacity:
            return 0
        self.capacity = 0
        if (
            grow(<void**>&self.place, count * sizeof(int32_t)) != 0
            or grow(<void**>&self.sizes, count * sizeof(int64_t)) != 0
            or grow(<void**>&self.steps, count * sizeof(int64_t)) != 0
            or grow(<void**>&self.pins, count * sizeof(int64_t)) != 0
            or grow(<void**>&self.offsets, count * sizeof(int64_t)) != 0
            or grow(<void**>&self.owner, count * sizeof(int32_t)) != 0
            or grow(<void**>&self.first, count * sizeof(int32_t)) != 0
            or grow(<void**>&self.last, count * sizeof(int32_t)) != 0
        ):
            return -1
        self.capacity = count
        return 0

    def load(
        self,
        sizes: Sequence[int],
        first: Sequence[int],
        last: Sequence[int],
        alignment: int = 64,
        *,
        pinned: Mapping[int, int] | None = None,
        leader: Sequence[int] | None = None,
        alignments: Sequence[int] | None = None,
    ) -> bool:
        """Take a problem that a planner has accepted; False if there is nothing to search, or too much.

        leader[i] is the first buffer of the group that buffer i belongs to. Other arguments as for `plan_offsets`.

        Raises
        ------
        ValueError
            It is none that a planner accepts.
        """
        cdef int i
        cdef array size_array = array("q", [*sizes, 0])
        cdef int n = len(size_array) - 1
        self.cancelled = 0
        pin_list = [-1] * (n + 1)
        for buffer, offset in (pinned or {}).items():
            if not 0 <= buffer < n:
                raise ValueError(f"pinned: buffer {buffer} is not one of {n} buffers")
            pin_list[buffer] = offset
        cdef array pin_array = array("q", pin_list)
        cdef array steps = array("q", [*(alignments or sizes), 0])
        cdef array leaders = array("i", [*(range(n) if leader is None else leader), 0])
        cdef array first_array = array("i", [*first, 0])
        cdef array last_array = array("i", [*last, 0])
        if not len(steps) == len(leaders) == len(first_array) == len(last_array) == n + 1:
            raise ValueError(f"not one alignment, group, first and last position for each of {n} buffers")
        for i in range(n):
            if int64s(size_array)[i] < 0 or int32s(first_array)[i] >= int32s(last_array)[i]:
                raise ValueError(f"buffer {i} has a negative size, or lives never")
            if not 0 <= int32s(leaders)[i] <= i:
                raise ValueError(f"the leader of buffer {i} is none of the buffers up to it")
            if alignments is None:
                int64s(steps)[i] = step_for(int64s(size_array)[i], alignment)
            if int64s(steps)[i] <= 0:
                raise ValueError(f"the alignment of buffer {i} is not above 0")
        return self.prepare(
            n, int64s(size_array), int64s(steps), int64s(pin_array), int32s(leaders), int32s(first_array),
            int32s(last_array),
        )

    def within(self, capacity: int, max_nodes: int, timeout_ns: int) -> tuple[int, list[int]]:
        """Look for offsets within a capacity: FOUND and the offsets, INFEASIBLE, or STOPPED."""
        self.require_problem()
        cdef int64_t limit = capacity
        cdef int64_t nodes = max_nodes
        cdef int64_t deadline = exact_clock() + timeout_ns
        cdef int status
        cdef array found = array("q", bytes(8 * (self.n + 1)))
        with nogil:
            status = self.solve(limit, nodes, deadline, int64s(found))
        if status == EXACT_NO_MEMORY:
            raise MemoryError
        return status, found.tolist()[:self.n] if status == EXACT_FOUND else []

    def lower(self, bound: int, peak: int, max_nodes: int, timeout_ns: int) -> tuple[int, int, list[int]]:
        """Find offsets with a peak below a known one: status as for `within`, the new peak, the offsets."""
        self.require_problem()
        cdef int64_t target = bound
        cdef int64_t best = peak
        cdef int64_t nodes = max_nodes
        cdef int64_t deadline = exact_clock() + timeout_ns
        cdef int status
        cdef array found = array("q", bytes(8 * (self.n + 1)))
        with nogil:
            status = self.improve(target, &best, nodes, deadline, int64s(found))
        if status == EXACT_NO_MEMORY:
            raise MemoryError
        return status, best, found.tolist()[:self.n] if status == EXACT_FOUND else []

    def fit(self, order: Sequence[int]) -> tuple[int, list[int]]:
        """First fit in a given order, which need not be complete: the peak and the offsets."""
        self.require_problem()
        cdef array order_array = array("i", [*order, 0])
        cdef int k, n_order = len(order_array) - 1
        for k in range(n_order):
            if not 0 <= int32s(order_array)[k] < self.n:
                raise ValueError(f"order: buffer {int32s(order_array)[k]} is not one of {self.n} buffers")
        cdef array found = array("q", bytes(8 * (self.n + 1)))
        peak = self.first_fit(int32s(order_array), n_order, int64s(found))
        return peak, found.tolist()[:self.n]

    cdef int require_problem(self) except -1:
        if self.c_obj is NULL:
            raise ValueError("there is nothing to search: load a problem first")
        return 0

    def cancel(self) -> None:
        """End the search that runs in another thread, and all later ones of this problem; it gives what it has."""
        exact_cancel(&self.cancelled)
