from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from etarena.delegates.repeating cimport Repeating


cdef class LastCall(Repeating):
    cdef vector[uint64_t] asked     # of the call at hand
    cdef vector[uint64_t] known     # of the call that `commands` serve
    cdef bint can_know              # `asked` says all that there is to know of the call
    cdef object device
    cdef object commands
    cdef object arena               # whose memory they use
    cdef object end                 # bytes of it from its base on
