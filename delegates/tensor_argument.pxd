from libc.stdint cimport int32_t, uint8_t
from etarena.delegates.table cimport etarena_argument


cdef class TensorArgument:
    cdef void* data
    cdef readonly int dtype
    cdef int rank
    cdef Py_ssize_t nbytes
    cdef Py_ssize_t[16] sizes
    cdef Py_ssize_t[16] steps            # bytes
    cdef int exports
    cdef bint closed
    cdef bint withdraw(self) noexcept


cdef TensorArgument wrap(const etarena_argument* argument)
