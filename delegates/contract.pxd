from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector


cdef struct Argument:                   # a tensor that a delegate's call is given
    int32_t rank
    const int32_t* sizes
    const uint8_t* dim_order


cdef class ScratchUser:
    cdef readonly str backend
    cdef int64_t measure(self, const vector[Argument]& arguments) except -1
    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1
    cdef int leave(self) except -1
