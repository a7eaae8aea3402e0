"""Tensors handed to others through DLPack."""

from etarena.device.tensor_core cimport TensorCore


cdef tuple dlpack_device(TensorCore tensor)
cdef object versioned_capsule(TensorCore tensor, bint copied)
cdef object plain_capsule(TensorCore tensor)
cdef object torch_tensor_of(TensorCore tensor)
