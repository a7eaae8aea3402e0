from libc.stdint cimport int32_t, int64_t

from .planner cimport OffsetPlanner


cdef extern from "orientation.h" nogil:
    ctypedef struct Orientation:
        int32_t n
        int32_t* order
        int32_t* events
        int32_t* start
        int32_t* below


cdef enum:
    MOST_ORIENTATIONS = 8


cdef struct Replayable:
    Orientation orientation
    double excess                       # of the plan it is from: peak / (bound that the planner aims at) - 1


cdef class OrientedPlanner:
    cdef readonly OffsetPlanner planner
    cdef Replayable[MOST_ORIENTATIONS] known    # the oldest first
    cdef readonly int count
    cdef readonly bint replayed         # whether the last plan needed no search
    cdef int64_t lifetimes              # which lifetimes they are for
    cdef int failures                   # of exact searches for these
    cdef int64_t* ends                  # scratch
    cdef int capacity

    # As OffsetPlanner.plan. `again`: the lifetimes are those of this planner's last plan, which saves a comparison.
    cdef int plan(self, int n, const int64_t* sizes, const int32_t* first, const int32_t* last, const int32_t* order,
                  int n_order, int64_t* offsets, int64_t* peak, int64_t* lower_bound, bint again) except -1 nogil
    cdef void forget(self) noexcept nogil
    cdef bint replay(self, const int64_t* sizes, int64_t* offsets, int64_t* peak, int64_t* lower_bound) noexcept nogil
    cdef int improve(self, const int64_t* sizes, int64_t* offsets, int64_t* peak) except -1 nogil
    cdef void begin_lifetimes(self) noexcept nogil
    cdef int remember(self, const int64_t* sizes, const int64_t* offsets, double excess) except -1 nogil
