from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument, ScratchUser
from etarena.delegates.table cimport Instance
from etarena.device.abi cimport etarena_argument


cdef class ForeignUser(ScratchUser):
    cdef shared_ptr[Instance] instance
    cdef int instruction
    cdef readonly bint watched          # garbage before, canary behind, in arenas that poison
    cdef readonly bint guarded          # pages with a fence behind them
    cdef bint asked
    cdef vector[etarena_argument] arguments     # of the call looked at, with what they point at
    cdef vector[int32_t] strides
    cdef vector[int32_t] expected
    cdef vector[uint8_t] joined
    cdef bint has_numbers
    cdef readonly list staged           # (argument, requirement) of what the plan measured last cannot give

    cdef int take(self, const vector[Argument]& arguments) except -1
    cdef int check_open(self) except -1
    cdef int check_sizes(self) except -1
    cdef object wrong_shape(self, size_t argument, size_t start)
    cdef uint64_t extra(self) noexcept
    cdef int list_staged(self) except -1
    cdef object failure(self, str step, string reason)
    cpdef list take_copies(self)
    cpdef bint take_outside(self)


cdef ForeignUser new_user(shared_ptr[Instance] instance)
