"""ExecuTorch programs and methods as Python objects that own them."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t

from etarena._native cimport Failure, MethodHandle, ProgramHandle, TensorView


cdef class NativeProgram:
    cdef Py_buffer source          # the file's bytes: constants and delegate data are read from there for ever
    cdef bint source_held
    cdef ProgramHandle* c_obj


cdef class NativeMethod:
    cdef readonly NativeProgram program   # its bytes and loader must outlive the method
    cdef readonly str name
    cdef readonly object payload          # bytes of the plan section as found in the file; None without one
    cdef list blocks                      # memory planned ahead of time, which the method's tensors point into
    cdef MethodHandle* c_obj
    cdef bint poisoned                    # a hard failure went through the runtime: never run or destroy it again

    cdef int attach(self, const int32_t* indices, const int32_t* ranks, const int32_t* dtypes, int count) except -1
    cdef int run(self, object labels) except -1
    cdef object scalar(self, size_t value)
