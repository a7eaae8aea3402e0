"""The plan of what is left of a run, once data has told a size."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder


cdef class StagePlanner:
    cdef ShapeBinder binder
    cdef vector[int32_t] place_of       # of each value: where it is among the planned buffers; -1
    cdef vector[int64_t] sizes          # scratch: bytes of each planned buffer in the stage being planned
    cdef vector[int64_t] pins
    cdef vector[int64_t] offsets

    cdef BoundShape advance(
        self, BoundShape before, int position, const int64_t* numbers, const uint8_t* told
    )
    cdef int take_told(
        self, BoundShape before, const int64_t* numbers, const uint8_t* told, vector[int64_t]& symbols,
        vector[uint8_t]& known
    ) except -1
    cdef int place(self, BoundShape bound, BoundShape before, int position) except -1
    cdef void keep_offsets(self, BoundShape bound) noexcept
    cdef int plan(self, const int64_t* pins, int64_t* peak, int64_t* lower_bound) except -1
    cdef void list_changes(self, BoundShape bound, BoundShape before) noexcept
    cdef void list_moves(self, BoundShape bound, BoundShape before) noexcept
