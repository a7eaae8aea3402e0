from libc.stdint cimport int32_t, int64_t

from .lifetimes cimport Lifetimes


cdef extern from "alignment.h" nogil:
    const int64_t LARGEST_TOTAL "ETARENA_LARGEST_TOTAL"
    int64_t step_for(int64_t size, int64_t alignment) noexcept


cdef struct Span:                       # where a buffer is; an unplaced one ends at -1 and so is in nobody's way
    int64_t offset
    int64_t end
    int32_t first
    int32_t last


cdef class Placement:
    cdef Lifetimes lifetimes
    cdef int64_t alignment
    cdef const int64_t* alignments      # of each buffer if they differ, during a plan; else NULL
    cdef const int64_t* sizes           # the caller's, during a plan
    cdef int64_t* steps                 # alignment of each buffer
    cdef Span* spans
    cdef bint stacked                   # whether `stack` is kept: some buffer overlaps many
    cdef int32_t* stack                 # placed buffers in order of their offset
    cdef int n_stack
    cdef int64_t work                   # spans looked at so far
    cdef int capacity

    # Choose the alignment of every buffer; sizes must stay valid while buffers are placed. SizeOverflowError,
    # ValueError.
    cdef int begin(self, int n, const int64_t* sizes) except -1 nogil
    # After lifetimes.learn: forget all places.
    cdef void clear(self) noexcept nogil
    cdef void put(self, int32_t i, int64_t offset) noexcept nogil
    # The lowest offset at which buffer i is in the way of no placed buffer.
    cdef int64_t lowest_fit(self, int32_t i) noexcept nogil
    # Place the buffers of an order one by one, as long as none ends at or beyond limit: gives the position in the order
    # of the one that does, or n_order. peak grows to the largest end.
    cdef int place(self, const int32_t* order, int n_order, int64_t limit, int64_t* peak) noexcept nogil
    # pins[i] >= 0 is the offset of buffer i: refuse pins that are in each other's way, give the largest end.
    cdef int64_t check_pins(self, const int64_t* pins) except -1 nogil

    cdef int reserve(self, int n) noexcept nogil
    cdef int64_t lowest_fit_in_stack(self, int32_t i) noexcept nogil
