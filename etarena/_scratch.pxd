"""Scratch memory of a method's delegates, as buffers of its plan."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument


cdef class DelegateScratch:
    cdef list users                       # ScratchUser of each call of a delegate that is planned
    cdef readonly tuple outside           # backends that keep scratch of their own
    cdef vector[int32_t] instruction      # of each call
    cdef vector[int32_t] start            # of each call: where its arguments begin; one more at the end
    cdef vector[int32_t] slots            # flat: position among the section's values; -1 - i: the i-th fixed shape
    cdef vector[int32_t] fixed_start      # of each fixed shape; one more at the end
    cdef vector[int32_t] fixed_sizes
    cdef vector[uint8_t] fixed_orders
    cdef vector[Argument] arguments       # of the call looked at

    cdef int count(self) noexcept
    cdef int64_t measure(self, int call, const int32_t* sizes, const int32_t* starts, const int32_t* ranks,
                         const uint8_t* orders) except -1
    cdef int place(self, int call, const int32_t* sizes, const int32_t* starts, const int32_t* ranks,
                   const uint8_t* orders, char* address, int64_t nbytes) except -1
    cdef int gather(self, int call, const int32_t* sizes, const int32_t* starts, const int32_t* ranks,
                    const uint8_t* orders) noexcept
