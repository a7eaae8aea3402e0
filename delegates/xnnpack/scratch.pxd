from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument, ScratchUser


cdef extern from "scratch.h" namespace "etarena::xnnpack" nogil:
    cppclass Shape:
        Shape()
        unsigned int id
        vector[size_t] dims


cdef class Runtime(ScratchUser):
    cdef void* runtime
    cdef vector[Shape] shapes
    cdef bint refused                   # the shapes measured last
    cdef int take(self, const vector[Argument]& arguments) except -1
    cdef object failure(self, int status)
