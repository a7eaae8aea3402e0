from libc.stdint cimport int32_t, int64_t


cdef extern from "exact.h" nogil:
    ctypedef struct exact_search:
        pass
    ctypedef enum exact_status:
        EXACT_FOUND
        EXACT_INFEASIBLE
        EXACT_STOPPED
        EXACT_NO_MEMORY
    exact_search* exact_new(int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins, int n_pieces,
                            const int32_t* owner, const int32_t* first, const int32_t* last) noexcept
    void exact_free(exact_search* search) noexcept
    int64_t exact_nodes(const exact_search* search) noexcept
    exact_status exact_solve(exact_search* search, int64_t capacity, int64_t max_nodes, int64_t deadline,
                             const int* cancel, int64_t* offsets) noexcept
    exact_status exact_improve(exact_search* search, int64_t bound, int64_t* peak, int64_t max_nodes,
                               int64_t deadline, const int* cancel, int64_t* offsets) noexcept
    int64_t exact_first_fit(exact_search* search, const int32_t* order, int64_t* offsets) noexcept
    void exact_cancel(int* cancel) noexcept
    int64_t exact_clock() noexcept


cdef int64_t clock_ns() noexcept nogil              # monotonic


cdef class ExactSearch:
    cdef exact_search* c_obj
    cdef int n                          # buffers of the caller
    cdef int count                      # those that are searched for: not empty, one for each group
    cdef int32_t* place                 # number of a caller's buffer among these, -1 if it is empty
    cdef int64_t* sizes                 # of these, the largest of a group,
    cdef int64_t* steps                 # the largest of a group,
    cdef int64_t* pins                  # -1 where free,
    cdef int64_t* offsets               # and what was found
    cdef int32_t* owner                 # of each piece of a lifetime
    cdef int32_t* first
    cdef int32_t* last
    cdef int capacity
    cdef int cancelled                  # set by any thread to end the search

    # Take a problem: buffer i has sizes[i] bytes, step steps[i] and lives at positions first[i] <= p < last[i];
    # pins[i] >= 0 is the offset it must have, leader[i] <= i the first buffer that must have the same offset (both may
    # be NULL). False if there is nothing to search, no memory, or too much to search.
    cdef bint prepare(self, int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins,
                      const int32_t* leader, const int32_t* first, const int32_t* last) noexcept nogil
    # See exact.h. What is found is written for all n buffers of the caller, with 0 for empty ones.
    cdef exact_status solve(self, int64_t capacity, int64_t max_nodes, int64_t deadline,
                            int64_t* offsets) noexcept nogil
    cdef exact_status improve(self, int64_t bound, int64_t* peak, int64_t max_nodes, int64_t deadline,
                              int64_t* offsets) noexcept nogil
    # order lists caller's buffers; those it leaves out come last.
    cdef int64_t first_fit(self, const int32_t* order, int n_order, int64_t* offsets) noexcept nogil
    cdef int64_t nodes(self) noexcept nogil

    cdef int require_problem(self) except -1        # ValueError if there is none
    cdef int reserve(self, int n) noexcept nogil
    cdef int collect(self, int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins,
                     const int32_t* leader, const int32_t* first, const int32_t* last) noexcept nogil
    cdef void give(self, int64_t* offsets) noexcept nogil
