# distutils: language = c++
"""Tensors of others, read in place: torch tensors, buffers, anything that speaks DLPack."""

cimport cython
from cpython.buffer cimport Py_buffer, PyObject_CheckBuffer
from cpython.memoryview cimport PyMemoryView_FromObject, PyMemoryView_GET_BUFFER
from cpython.pycapsule cimport PyCapsule_CheckExact, PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uintptr_t

from etarena.device.dlpack cimport (
    DLPACK_CPU,
    DLPACK_CUDA,
    DLPACK_CUDA_HOST,
    DLPACK_READ_ONLY,
    DLPACK_ROCM_HOST,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
    DLTensor,
)
from etarena.device.resource cimport Resource
from etarena.device.scalar_types cimport buffer_code, dtype_code, item_bytes
from etarena.device.tensor_core cimport MAX_RANK, TensorCore

import sys

from ..allocator.errors import DeviceError, InputError, InputTypeError
from .device import Device, DeviceType

__all__ = []

cdef object DEVICE_TYPES = frozenset(map(int, DeviceType)) - {0}
cdef DLPackExchangeAPI* exchange = NULL
cdef object torch_tensor = None
cdef object plain_dispatch = None


cdef int load_torch() except -1:
    global exchange, torch_tensor, plain_dispatch
    import torch

    table = <DLPackExchangeAPI*> PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__, "dlpack_exchange_api")
    if table.version.major != 1:
        raise ImportError(f"torch speaks DLPack {table.version.major}, etarena speaks DLPack 1: use torch 2.13")
    torch_tensor, plain_dispatch, exchange = torch.Tensor, torch.Tensor.__torch_dispatch__, table
    return 0


cdef DLPackExchangeAPI* exchange_table() except NULL:
    if exchange == NULL:
        load_torch()
    return exchange


cdef bint is_torch_tensor(object value) except -1:
    """Whether this is a torch tensor; without importing torch if nobody has."""
    if torch_tensor is None:
        if "torch" not in sys.modules:
            return False
        load_torch()
    return isinstance(value, torch_tensor)


cdef int read_any(TensorCore out, object value) except -1:
    """Read a torch tensor, a buffer, or whatever has ``__dlpack__``."""
    if is_torch_tensor(value):
        return read_torch(out, value)
    if PyObject_CheckBuffer(value):
        return read_buffer(out, value)
    if hasattr(type(value), "__dlpack__") or PyCapsule_CheckExact(value):
        return read_dlpack(out, value)
    raise InputTypeError(
        f"a {type(value).__name__} is no tensor: expected a torch.Tensor, a NumPy array, a buffer, or anything with "
        "__dlpack__"
    )


cdef int read_torch(TensorCore out, object tensor) except -1:
    cdef DLTensor view
    if exchange == NULL:
        load_torch()
    if type(tensor) is not torch_tensor:
        if not isinstance(tensor, torch_tensor):
            raise InputTypeError(f"expected a torch.Tensor, got {type(tensor).__name__}")
        if type(tensor).__torch_dispatch__ is not plain_dispatch:
            raise InputTypeError(f"a {type(tensor).__name__} has no plain memory; pass a torch.Tensor")
    if tensor.is_neg() or tensor.is_conj():
        raise InputError(
            "the tensor is a negated or conjugated view: resolve_neg() and resolve_conj() copy it to plain memory"
        )
    try:
        exchange.dltensor_from_py_object_no_sync(<void*> <PyObject*> tensor, &view)
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise InputTypeError(f"a {type(tensor).__name__} ({tensor.layout}, {tensor.device}): {text}") from error
    read_record(out, &view, tensor)
    if out.is_cpu():
        refuse_short_storage(out, tensor)
    return 0


cdef int refuse_short_storage(TensorCore out, object tensor) except -1:
    """A storage may have been shrunk below its tensors."""
    has = tensor.untyped_storage().nbytes()
    if tensor.storage_offset() * item_bytes(out.code) + out.span() > has:
        raise InputError(f"the tensor's storage of {has} bytes is smaller than the tensor")
    return 0


cdef int read_buffer(TensorCore out, object value) except -1:
    cdef int64_t[MAX_RANK] sizes
    cdef int64_t[MAX_RANK] steps
    cdef const Py_buffer* view
    cdef Py_ssize_t item
    cdef int d, code
    owner = PyMemoryView_FromObject(value)
    view = PyMemoryView_GET_BUFFER(owner)
    code = buffer_code(view)
    if code < 0:
        kind = (<bytes> view.format).decode(errors="replace")
        raise InputTypeError(f"a buffer of items {kind!r} cannot be read as a tensor; convert it first")
    if view.ndim > MAX_RANK:
        raise InputError(f"a buffer of {view.ndim} dimensions: ExecuTorch has at most {MAX_RANK}")
    if view.suboffsets != NULL:
        raise InputError("a buffer of pointers to rows is no tensor; make a contiguous copy first")
    item = view.itemsize
    for d in range(view.ndim):
        sizes[d] = view.shape[d]
        if view.strides[d] % item or view.strides[d] < 0 and sizes[d] > 1:
            raise InputError(
                f"stride {view.strides[d]} bytes of dimension {d} is negative or splits items of {item} "
                "bytes, which a tensor cannot have: make a contiguous copy first"
            )
        steps[d] = view.strides[d] // item
    out.set_sizes(code, view.ndim, sizes, steps)
    out.data, out.readonly, out.owner = view.buf, view.readonly, owner
    return 0


@cython.final
cdef class DLPackRecord:
    """A producer's record, given back when the last reference is dropped."""

    cdef DLManagedTensor* plain
    cdef DLManagedTensorVersioned* versioned

    def __dealloc__(self):
        if self.plain != NULL and self.plain.deleter != NULL:
            self.plain.deleter(self.plain)
        if self.versioned != NULL and self.versioned.deleter != NULL:
            self.versioned.deleter(self.versioned)


cdef int read_dlpack(TensorCore out, object value) except -1:
    cdef DLManagedTensorVersioned* versioned
    cdef DLManagedTensor* plain
    cdef DLPackRecord record = DLPackRecord.__new__(DLPackRecord)
    capsule = value if PyCapsule_CheckExact(value) else ask_for_capsule(value)
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <DLManagedTensorVersioned*> PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if versioned.version.major != 1:
            raise InputTypeError(f"the tensor speaks DLPack {versioned.version.major}, etarena speaks DLPack 1")
        read_record(out, &versioned.dl_tensor, record)
        out.readonly = versioned.flags & DLPACK_READ_ONLY != 0
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        record.versioned = versioned
    elif PyCapsule_IsValid(capsule, "dltensor"):
        plain = <DLManagedTensor*> PyCapsule_GetPointer(capsule, "dltensor")
        read_record(out, &plain.dl_tensor, record)
        PyCapsule_SetName(capsule, "used_dltensor")
        record.plain = plain
    else:
        raise InputTypeError(f"{capsule!r} is no capsule of DLPack, or was taken before")
    return 0


cdef object ask_for_capsule(object value):
    if not hasattr(value, "__dlpack__"):
        raise InputTypeError(f"a {type(value).__name__} has no __dlpack__")
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return value.__dlpack__()        # a producer from before DLPack 1.0


cdef int read_record(TensorCore out, const DLTensor* view, object owner) except -1:
    cdef int code = dtype_code(view.dtype)
    cdef uintptr_t address = <uintptr_t> view.data
    if code < 0:
        raise InputTypeError(
            f"ExecuTorch has no dtype like DLPack's code {view.dtype.code} with {view.dtype.bits} bits, "
            f"{view.dtype.lanes} lanes"
        )
    if view.ndim < 0 or (view.ndim > 0 and view.shape == NULL):
        raise InputError(f"a DLPack record of {view.ndim} dimensions without sizes")
    out.set_sizes(code, view.ndim, view.shape, view.strides)
    out.owner = owner
    if view.device.device_type in (DLPACK_CPU, DLPACK_CUDA_HOST, DLPACK_ROCM_HOST):
        if view.data == NULL and out.span() > 0:
            raise InputError("the tensor has items but no memory")
        out.data = <void*> (address + view.byte_offset)
        return 0
    return read_foreign_device(out, view)


cdef int read_foreign_device(TensorCore out, const DLTensor* view) except -1:
    """Tag memory that is not the CPU's. DLPack's data is an address, or a VkBuffer for Vulkan."""
    kind = 1 if view.device.device_type == DLPACK_CUDA else view.device.device_type
    if kind not in DEVICE_TYPES:
        raise DeviceError(f"DLPack's device type {kind} has no name here")
    device = Device(kind, view.device.device_id)
    make = Resource.vk_buffer if kind == DeviceType.VULKAN else Resource.device_pointer
    out.source = make(<uintptr_t> view.data, out.span(), offset=view.byte_offset, owner=out.owner)
    out.place.type, out.place.index = device.type, device.index
    return 0
