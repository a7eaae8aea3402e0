"""ExecuTorch's scalar types as DLPack and the buffer protocol name them."""

from cpython.buffer cimport Py_buffer

from etarena.device.dlpack cimport DLDataType

cdef extern from "scalar_types.h" namespace "etarena":
    int item_bytes(int code) noexcept nogil                # 0 for a code ExecuTorch does not have


cdef int dtype_code(DLDataType dtype) noexcept nogil       # ExecuTorch's ScalarType, -1 when there is none
cdef DLDataType dlpack_dtype(int code) noexcept nogil      # bits 0 when there is none
cdef DLDataType buffer_dtype(const Py_buffer* view)        # of a buffer's items; bits 0 when there is none
cdef int buffer_code(const Py_buffer* view) noexcept       # ExecuTorch's ScalarType of a buffer's items, or -1
cdef const char* buffer_format(int code) noexcept nogil    # as the struct module writes it; NULL when there is none
