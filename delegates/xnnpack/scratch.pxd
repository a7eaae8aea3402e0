from libcpp.memory cimport shared_ptr

from etarena.delegates.contract cimport ScratchUser


cdef extern from "scratch.h" namespace "etarena::xnnpack" nogil:
    cppclass KnownRuntime "etarena::xnnpack::Runtime":
        pass


cdef class Runtime(ScratchUser):
    cdef shared_ptr[KnownRuntime] handle
    cdef object failure(self, int status)
