from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector


cdef struct Argument:                   # that a delegate's call is given
    int32_t kind                        # as in etarena.h: 1 tensor, 2 int, 3 double, 4 bool, 0 anything else
    int32_t dtype
    int32_t rank
    const int32_t* sizes
    const uint8_t* dim_order
    int64_t integer
    double number
    int32_t device_type                 # 0: the CPU
    int32_t device_index
    bint joined                         # its memory is aligned and padded by the plan as its users wish


cdef struct NativeUser:                 # `measure` and `place` of a user without a Python object; NULL: there are none
    void* runtime
    # Give anything but 0 where the methods must be asked, which say what is wrong.
    int (*measure)(void* runtime, int64_t* nbytes) noexcept nogil
    int (*place)(void* runtime, char* address, int64_t nbytes) noexcept nogil


cdef class ScratchUser:
    cdef readonly str backend
    cdef ScratchUser at_call(self, int instruction, bint only)
    cdef int ask(self, const vector[Argument]& arguments) except -1
    cdef int64_t alignment_wish(self, size_t argument) noexcept
    cdef int64_t size_wish(self, size_t argument) noexcept
    cdef NativeUser native(self) noexcept
    cdef int64_t measure(self, const vector[Argument]& arguments) except -1
    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1
    cdef int leave(self) except -1
