"""Tensors on any device, for Cython callers."""

from libc.stdint cimport int32_t, uint8_t

from etarena.device.abi cimport etarena_argument
from etarena.device.tensor_core cimport TensorCore


cdef class ETensor(TensorCore):
    pass


# A tensor on CPU memory of the caller, who answers for the arguments. `owner` is kept alive; None: the memory must
# outlive the tensor, which close() tells: it fails while anything made from the tensor is alive.
cdef ETensor borrow(
    void* data, int dtype, int rank, const int32_t* sizes, const int32_t* strides, const uint8_t* dim_order,
    object owner, bint readonly,
)
# The same from an argument of a delegate, on any device.
cdef ETensor from_argument(const etarena_argument* argument, object owner, bint readonly)
