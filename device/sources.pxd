"""Tensors of others, read in place."""

from etarena.device.dlpack cimport DLPackExchangeAPI
from etarena.device.tensor_core cimport TensorCore


cdef DLPackExchangeAPI* exchange_table() except NULL      # torch's; imports torch
cdef int read_any(TensorCore out, object value) except -1
cdef int read_torch(TensorCore out, object tensor) except -1
cdef int read_buffer(TensorCore out, object value) except -1
cdef int read_dlpack(TensorCore out, object value) except -1
