"""Copies between layouts."""

from etarena.device.tensor_core cimport TensorCore


cdef int copy_items(TensorCore out, TensorCore source) except -1
