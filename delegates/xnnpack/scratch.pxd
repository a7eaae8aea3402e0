from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument, ScratchUser


cdef extern from "scratch.h" namespace "etarena::xnnpack" nogil:
    cppclass InputSizes:
        size_t rank
        size_t* dims
    cppclass KnownRuntime "etarena::xnnpack::Runtime":
        pass


cdef class Runtime(ScratchUser):
    cdef shared_ptr[KnownRuntime] handle
    cdef vector[unsigned int] ids       # of the inputs: positions among the arguments
    cdef vector[InputSizes] inputs      # in that order
    cdef bint refused                   # the sizes measured last
    cdef int take(self, const vector[Argument]& arguments) except -1
    cdef object failure(self, int status)
