"""Which buffers live at the same time, and how much memory that takes.

What depends on the lifetimes alone is kept, because a model plans many shapes with the same lifetimes.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

__all__ = ["Lifetimes"]

cdef enum:
    RUN = 8                             # keys sorted by insertion before merging
    LISTED_DEGREE = 128                 # average number of overlaps up to which they are listed


cdef inline bint goes_before(Key* a, Key* b) noexcept nogil:
    return a.primary > b.primary or (a.primary == b.primary and a.secondary > b.secondary)


cdef void sort_keys(Key* keys, Key* spare, int n) noexcept nogil:
    """Stable merge sort, bottom up; `spare` holds n keys."""
    cdef int start, middle, end, i, j, k
    cdef int width = RUN
    cdef Key key
    cdef Key* source = keys
    cdef Key* target = spare
    for start in range(0, n, 8):        # RUN
        for i in range(start + 1, min(start + RUN, n)):
            key = keys[i]
            j = i
            while j > start and goes_before(&key, &keys[j - 1]):
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
    while width < n:
        start = 0
        while start < n:
            middle = min(start + width, n)
            end = min(middle + width, n)
            i = start
            j = middle
            for k in range(start, end):
                if i < middle and (j >= end or not goes_before(&source[j], &source[i])):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
            start = end
        source, target = target, source
        width *= 2
    if source != keys:
        memcpy(keys, source, n * sizeof(Key))


cdef class Lifetimes:
    """Overlaps of half-open lifetimes; scratch memory of a planner."""

    def __dealloc__(self):
        free(self.first)
        free(self.last)
        free(self.by_first)
        free(self.by_last)
        free(self.starts_before)
        free(self.starts_until)
        free(self.ends_before)
        free(self.edge_start)
        free(self.edges)
        free(self.profile)
        free(self.height)
        free(self.conflict)
        free(self.scratch)
        free(self.keys)
        free(self.spare)

    cdef int learn(self, int n, const int32_t* first, const int32_t* last) except -1 nogil:
        cdef int32_t i
        cdef size_t nbytes = n * sizeof(int32_t)
        if n == self.n and (n == 0 or memcmp(first, self.first, nbytes) == 0 and memcmp(last, self.last, nbytes) == 0):
            return 0
        self.n = 0
        self.version += 1
        for i in range(n):
            if first[i] >= last[i]:
                raise_empty(i, first[i], last[i])
        if self.reserve(n) != 0:
            raise_memory()
        memcpy(self.first, first, nbytes)
        memcpy(self.last, last, nbytes)
        self.n = n
        self.sort_positions()
        self.rank()
        if self.list_overlaps() != 0:
            self.n = 0
            raise_memory()
        return 0

    cdef void bound(self, const int64_t* sizes, const int64_t* steps, int64_t* lower_bound,
                    int64_t* rounded_bound) noexcept nogil:
        cdef int32_t i
        cdef int k, j
        cdef int ended = 0
        cdef int group = 0              # first of the buffers that start at this position
        cdef int64_t live = 0
        cdef int64_t rounded = 0
        lower_bound[0] = rounded_bound[0] = 0
        for k in range(self.n):
            i = self.by_first[k]
            while self.last[self.by_last[ended]] <= self.first[i]:
                j = self.by_last[ended]
                live -= sizes[j]
                rounded -= (sizes[j] + steps[j] - 1) & -steps[j]
                ended += 1
            live += sizes[i]
            rounded += (sizes[i] + steps[i] - 1) & -steps[i]
            if k + 1 == self.n or self.first[self.by_first[k + 1]] != self.first[i]:
                while group <= k:
                    self.profile[group] = live
                    group += 1
                lower_bound[0] = max(lower_bound[0], live)
                rounded_bound[0] = max(rounded_bound[0], rounded)

    cdef void measure(self, const int64_t* sizes, const int64_t* steps, int64_t* lower_bound,
                      int64_t* rounded_bound) noexcept nogil:
        cdef int32_t i
        cdef int k
        cdef int64_t largest
        self.bound(sizes, steps, lower_bound, rounded_bound)
        for i in range(self.n):
            largest = 0
            for k in range(self.starts_before[i], self.starts_until[i]):
                largest = max(largest, self.profile[k])
            self.height[i] = largest
        self.measure_conflicts(sizes)

    cdef void measure_conflicts(self, const int64_t* sizes) noexcept nogil:
        """Bytes that start before a buffer ends, less those that ended before it starts, less its own."""
        cdef int k = 0
        cdef int32_t i
        cdef int64_t total = 0
        cdef int rank
        for rank in range(self.n):      # buffers in order of their end meet the starts in order
            i = self.by_last[rank]
            while k < self.starts_until[i]:
                total += sizes[self.by_first[k]]
                k += 1
            self.conflict[i] = total - sizes[i]
        k = 0
        total = 0
        for rank in range(self.n):
            i = self.by_first[rank]
            while k < self.ends_before[i]:
                total += sizes[self.by_last[k]]
                k += 1
            self.conflict[i] -= total

    cdef int64_t degree(self, int32_t i) noexcept nogil:
        return self.starts_until[i] - self.ends_before[i] - 1

    cdef int reserve(self, int n) noexcept nogil:
        cdef int capacity = max(64, n + n // 2)
        cdef size_t count = capacity
        cdef int status = 0
        if n <= self.capacity:
            return 0
        self.capacity = 0
        status |= grow(<void**>&self.first, count * sizeof(int32_t))
        status |= grow(<void**>&self.last, count * sizeof(int32_t))
        status |= grow(<void**>&self.by_first, count * sizeof(int32_t))
        status |= grow(<void**>&self.by_last, count * sizeof(int32_t))
        status |= grow(<void**>&self.starts_before, count * sizeof(int32_t))
        status |= grow(<void**>&self.starts_until, count * sizeof(int32_t))
        status |= grow(<void**>&self.ends_before, count * sizeof(int32_t))
        status |= grow(<void**>&self.edge_start, (count + 1) * sizeof(int64_t))
        status |= grow(<void**>&self.profile, count * sizeof(int64_t))
        status |= grow(<void**>&self.height, count * sizeof(int64_t))
        status |= grow(<void**>&self.conflict, count * sizeof(int64_t))
        status |= grow(<void**>&self.scratch, count * sizeof(int32_t))
        status |= grow(<void**>&self.keys, count * sizeof(Key))
        status |= grow(<void**>&self.spare, count * sizeof(Key))
        if status == 0:
            self.capacity = capacity
        return status

    cdef void sort_positions(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n):
            self.keys[i] = Key(-<double>self.first[i], 0, i)
        sort_keys(self.keys, self.spare, self.n)
        for i in range(self.n):
            self.by_first[i] = self.keys[i].index
        for i in range(self.n):
            self.keys[i] = Key(-<double>self.last[i], 0, i)
        sort_keys(self.keys, self.spare, self.n)
        for i in range(self.n):
            self.by_last[i] = self.keys[i].index

    cdef void rank(self) noexcept nogil:
        cdef int k
        cdef int32_t i
        cdef int started = 0
        cdef int ended = 0
        for k in range(self.n):
            i = self.by_first[k]
            while self.first[self.by_first[started]] < self.first[i]:
                started += 1
            while self.last[self.by_last[ended]] <= self.first[i]:
                ended += 1
            self.starts_before[i] = started
            self.ends_before[i] = ended
        started = 0
        for k in range(self.n):
            i = self.by_last[k]
            while started < self.n and self.first[self.by_first[started]] < self.last[i]:
                started += 1
            self.starts_until[i] = started

    cdef int list_overlaps(self) noexcept nogil:
        """Sweep over the starts with the set of buffers that are live."""
        cdef int64_t total = 0
        cdef int32_t i, other
        cdef int k, j, kept
        cdef int n_active = 0
        cdef int32_t* active = self.scratch
        for i in range(self.n):
            self.edge_start[i] = total
            total += self.degree(i)
        self.edge_start[self.n] = total
        self.listed = total <= <int64_t>LISTED_DEGREE * self.n
        if not self.listed:
            return 0
        if total > self.edge_capacity:
            self.edge_capacity = 0
            if grow(<void**>&self.edges, total * sizeof(int32_t)) != 0:
                return -1
            self.edge_capacity = total
        for k in range(self.n):
            i = self.by_first[k]
            kept = 0
            for j in range(n_active):
                other = active[j]
                if self.last[other] > self.first[i]:
                    active[kept] = other
                    kept += 1
                    self.edges[self.edge_start[i]] = other
                    self.edges[self.edge_start[other]] = i
                    self.edge_start[i] += 1
                    self.edge_start[other] += 1
            active[kept] = i
            n_active = kept + 1
        for i in range(self.n - 1, -1, -1):     # each start now stands at its end, which is the next one's start
            self.edge_start[i + 1] = self.edge_start[i]
        self.edge_start[0] = 0
        return 0


cdef int raise_empty(int32_t i, int32_t first, int32_t last) except -1 with gil:
    raise ValueError(f"buffer {i} lives at positions {first} <= p < {last}, which is never; expected first < last")


cdef int raise_memory() except -1 nogil:
    with gil:
        raise MemoryError()
