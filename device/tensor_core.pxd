"""What every tensor on a device is in C: dtype, layout, place and owner."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from etarena.device.abi cimport etarena_argument, etarena_device
from etarena.device.resource cimport Resource

cdef enum:
    MAX_RANK = 16                        # kTensorDimensionLimit of ExecuTorch


cdef class TensorCore:
    cdef object __weakref__
    cdef void* data                      # address of the first item; NULL if the memory is not the CPU's
    cdef Resource source                 # memory of a device, or what the caller gave; None for plain CPU memory
    cdef object owner                    # keeps the memory alive; None: the caller does
    cdef Py_ssize_t exports              # buffers, DLPack records and views handed out and not released
    cdef etarena_device place
    cdef int32_t code                    # ExecuTorch's ScalarType
    cdef int32_t rank
    cdef int32_t[MAX_RANK] sizes
    cdef int32_t[MAX_RANK] steps         # strides in elements, never negative
    cdef uint8_t[MAX_RANK] order         # outermost dimension first
    cdef readonly bint readonly
    cdef readonly bint is_closed
    cdef bint lent                       # the address was given to users that cannot be counted

    cdef int require_open(self) except -1
    cdef int require_cpu(self, str what) except -1
    cdef bint is_cpu(self) noexcept
    cdef bint is_dense(self) noexcept                      # in its dim order
    cdef bint lies_dense(self, const uint8_t* order) noexcept
    cdef bint is_row_major(self) noexcept
    cdef int64_t count(self) noexcept                      # items
    cdef int64_t span(self) noexcept                       # bytes from the first to one past the last item
    cdef int set_sizes(self, int code, int rank, const int64_t* sizes, const int64_t* strides) except -1
    cdef int set_layout(self, dtype, shape, strides, dim_order) except -1
    cdef int fill_argument(self, etarena_argument* out) except -1


cdef class Pin:                          # counts as an export of a tensor while it lives
    cdef TensorCore tensor

cdef Pin pin(TensorCore tensor)
