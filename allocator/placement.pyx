"""First fit: gives one buffer after the other the lowest offset that is free for its whole lifetime.

A buffer with few overlaps looks at these only; one with many walks through the placed buffers from the bottom up until
it meets a gap.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from .lifetimes cimport Lifetimes, raise_memory

from .errors import SizeOverflowError

__all__ = ["Placement"]

cdef enum:
    MANY = 48                           # overlaps from which on walking through the stack is cheaper


cdef class Placement:
    """Offsets of the buffers placed so far; scratch memory of a planner."""

    def __cinit__(self, Lifetimes lifetimes, alignment: int):
        self.lifetimes = lifetimes
        self.alignment = alignment

    def __dealloc__(self):
        free(self.steps)
        free(self.spans)
        free(self.stack)

    cdef int begin(self, int n, const int64_t* sizes) except -1 nogil:
        cdef int i
        cdef int64_t room = LARGEST_TOTAL       # so that no sum of sizes and padding can overflow
        if n > self.capacity and self.reserve(n) != 0:
            raise_memory()
        for i in range(n):
            if sizes[i] < 0:
                raise_negative(i, sizes[i])
            self.steps[i] = step_for(sizes[i], self.alignment) if self.alignments is NULL else self.alignments[i]
            if sizes[i] > room - self.steps[i]:
                raise_overflow()
            room -= sizes[i] + self.steps[i]
        self.sizes = sizes
        return 0

    cdef void clear(self) noexcept nogil:
        cdef int i
        self.n_stack = 0
        self.stacked = not self.lifetimes.listed
        for i in range(self.lifetimes.n):
            self.spans[i] = Span(0, -1, self.lifetimes.first[i], self.lifetimes.last[i])
            self.stacked |= self.lifetimes.degree(i) > MANY

    cdef void put(self, int32_t i, int64_t offset) noexcept nogil:
        cdef int low = 0
        cdef int high = self.n_stack
        cdef int middle
        self.spans[i].offset = offset
        if self.sizes[i] == 0:
            return
        self.spans[i].end = offset + self.sizes[i]
        if self.stacked:
            while low < high:
                middle = (low + high) // 2
                if self.spans[self.stack[middle]].offset <= offset:
                    low = middle + 1
                else:
                    high = middle
            memmove(self.stack + low + 1, self.stack + low, (self.n_stack - low) * sizeof(int32_t))
            self.stack[low] = i
            self.n_stack += 1

    cdef int64_t lowest_fit(self, int32_t i) noexcept nogil:
        cdef int64_t cursor = 0
        cdef int64_t size = self.sizes[i]
        cdef int64_t step = self.steps[i]
        cdef int64_t highest, k
        cdef int64_t start = self.lifetimes.edge_start[i]
        cdef int64_t end = self.lifetimes.edge_start[i + 1]
        cdef Span* span
        if not self.lifetimes.listed or end - start > MANY:
            return self.lowest_fit_in_stack(i)
        while True:
            highest = 0
            for k in range(start, end):
                span = &self.spans[self.lifetimes.edges[k]]
                if span.offset < cursor + size and span.end > cursor:
                    highest = max(highest, span.end)
            self.work += end - start
            if highest == 0:
                return cursor
            cursor = (highest + step - 1) & -step   # nothing below can fit: it would hit the same buffers

    cdef int64_t lowest_fit_in_stack(self, int32_t i) noexcept nogil:
        cdef int64_t cursor = 0
        cdef int64_t size = self.sizes[i]
        cdef int64_t step = self.steps[i]
        cdef int32_t first = self.spans[i].first
        cdef int32_t last = self.spans[i].last
        cdef int k = 0
        cdef Span* span
        while k < self.n_stack:
            span = &self.spans[self.stack[k]]
            if span.offset >= cursor + size:
                break
            if span.first < last and span.last > first and span.end > cursor:
                cursor = (span.end + step - 1) & -step
            k += 1
        self.work += k
        return cursor

    cdef int place(self, const int32_t* order, int n_order, int64_t limit, int64_t* peak) noexcept nogil:
        cdef int position
        cdef int32_t i
        cdef int64_t offset
        for position in range(n_order):
            i = order[position]
            if self.sizes[i] > 0:
                offset = self.lowest_fit(i)
                if offset + self.sizes[i] >= limit:
                    return position
                self.put(i, offset)
                peak[0] = max(peak[0], offset + self.sizes[i])
        return n_order

    cdef int64_t check_pins(self, const int64_t* pins) except -1 nogil:
        cdef int i, j
        cdef int64_t end
        cdef int64_t peak = 0
        cdef const int64_t* sizes = self.sizes
        cdef const int32_t* first = self.lifetimes.first
        cdef const int32_t* last = self.lifetimes.last
        for i in range(self.lifetimes.n):
            if pins[i] < 0:
                continue
            if pins[i] > LARGEST_TOTAL:
                raise_pin(i, pins[i])
            end = pins[i] + sizes[i]
            if sizes[i] > 0:
                peak = max(peak, end)
            for j in range(i):
                if pins[j] < 0 or pins[j] >= end or pins[j] + sizes[j] <= pins[i] or sizes[i] == 0 or sizes[j] == 0:
                    continue
                if first[j] < last[i] and last[j] > first[i]:
                    raise_pins(j, i)
        return peak

    cdef int reserve(self, int n) noexcept nogil:
        cdef size_t count = n + n // 2
        cdef void* steps = realloc(self.steps, count * sizeof(int64_t))
        if steps is not NULL:
            self.steps = <int64_t*>steps
        cdef void* spans = realloc(self.spans, count * sizeof(Span))
        if spans is not NULL:
            self.spans = <Span*>spans
        cdef void* stack = realloc(self.stack, count * sizeof(int32_t))
        if stack is not NULL:
            self.stack = <int32_t*>stack
        if steps is NULL or spans is NULL or stack is NULL:
            return -1
        self.capacity = count
        return 0


cdef int raise_negative(int i, int64_t size) except -1 with gil:
    raise ValueError(f"buffer {i} has a negative size of {size} bytes")


cdef int raise_overflow() except -1 with gil:
    raise SizeOverflowError(f"the buffers have more than {LARGEST_TOTAL} bytes together")


cdef int raise_pin(int i, int64_t offset) except -1 with gil:
    raise ValueError(f"buffer {i} cannot be pinned at offset {offset}: too large (expected up to {LARGEST_TOTAL})")


cdef int raise_pins(int i, int j) except -1 with gil:
    raise ValueError(f"buffers {i} and {j} are pinned to overlapping bytes but live at the same time")
