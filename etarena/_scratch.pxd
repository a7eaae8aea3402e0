"""Scratch memory of a method's delegates, as buffers of its plan."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from etarena._runtime cimport NativeMethod
from etarena.allocator.planner cimport OffsetPlanner
from etarena.delegates.contract cimport Argument, NativeUser


cdef class DelegateScratch:
    cdef list users                       # ScratchUser of each call of a delegate that is planned
    cdef vector[NativeUser] natives       # of each call
    cdef list calls                       # the section's entry of each
    cdef readonly bint has_foreign                 # some are delegates behind function tables
    cdef tuple unplanned                  # backends that keep scratch of their own
    cdef object section
    cdef vector[int32_t] instruction      # of each call
    cdef vector[int32_t] start            # of each call: where its arguments begin; one more at the end
    cdef vector[int32_t] slots            # flat: position among the section's values; -1 - i: the i-th fixed argument
    cdef vector[Argument] fixed           # arguments that no plan changes, such as constants and numbers
    cdef vector[int32_t] fixed_start      # of each: where its sizes and order begin; one more at the end
    cdef vector[int32_t] fixed_sizes
    cdef vector[uint8_t] fixed_orders
    cdef vector[int32_t] device_types, device_indices   # of each value
    cdef vector[int32_t] dtypes           # of each value
    cdef vector[uint8_t] joined           # of each value: the plan aligns and pads its memory
    cdef vector[int64_t] multiples        # of each value that owns memory: of how many bytes it should be a multiple
    cdef bint has_multiples               # some are larger than 1
    cdef vector[int64_t] alignments       # of each value that owns memory: what is wanted of its address; 0
    cdef readonly bint has_steps          # planned buffers are aligned each in its own way
    cdef vector[int64_t] steps            # of the buffers of the last plan
    cdef readonly bint has_wishes         # so that arguments may have to be copied
    cdef dict described                   # copies that calls made, by all that ForeignUser says of them
    cdef vector[vector[Argument]] arguments   # of each call; those that are values have their sizes below
    cdef vector[int32_t] starts           # of each value: where its sizes and order begin
    cdef vector[int32_t] ranks
    cdef vector[int32_t] sizes            # flat
    cdef vector[uint8_t] orders

    cdef int count(self) noexcept
    cdef void align(self, OffsetPlanner planner, const vector[int32_t]& planned, const int64_t* sizes) noexcept
    cdef int64_t padded(self, int position, int64_t nbytes) noexcept
    cdef void take_sizes(self, const vector[int32_t]& sizes) noexcept
    cdef int64_t measure(self, int call) except -1
    cdef int place(self, int call, char* address, int64_t nbytes) except -1
    cdef int gather(self, int call) except -1
    cdef int check_copies(self, NativeMethod native) except -1
    cdef list take_copies(self)
    cdef tuple take_outside(self)
