"""The symbols of a method, solved from the sizes of a call."""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector


cdef struct Equation:                   # size == scale * symbol + offset
    int32_t place                       # of the size in the key
    int32_t symbol
    int64_t scale
    int64_t offset
    int64_t smallest                    # of the symbol
    int64_t largest


cdef class Equations:
    cdef object section
    cdef list sources                   # of each equation: the binding or discovery that it comes from
    cdef vector[Equation] equations

    cdef int solve(self, const int64_t* key, int64_t* symbols) except -1
    cdef object explain(self, source, size)
