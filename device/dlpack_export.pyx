# distutils: language = c++
"""Tensors handed to others through DLPack; every record counts as an export of its tensor until it is deleted."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from etarena.device.abi cimport (
    ETARENA_RESOURCE_DEVICE_POINTER,
    ETARENA_RESOURCE_HOST,
    ETARENA_RESOURCE_VK_BUFFER,
)
from etarena.device.dlpack cimport (
    DLPACK_COPIED,
    DLPACK_CPU,
    DLPACK_CUDA,
    DLPACK_READ_ONLY,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
)
from etarena.device.scalar_types cimport dlpack_dtype
from etarena.device.sources cimport exchange_table
from etarena.device.tensor_core cimport TensorCore

from .kinds import kind_name

__all__ = []

cdef extern from "Python.h":
    int Py_IsInitialized() nogil


cdef union Managed:
    DLManagedTensorVersioned versioned
    DLManagedTensor plain


cdef struct Record:                      # then sizes and strides
    Managed managed
    PyObject* tensor


cdef void release(Record* record) noexcept nogil:
    if not Py_IsInitialized():           # the interpreter is gone: leak on purpose
        return
    with gil:
        tensor = <TensorCore> record.tensor
        tensor.exports -= 1
        Py_DECREF(tensor)
    free(record)


cdef void delete_versioned(DLManagedTensorVersioned* managed) noexcept nogil:
    release(<Record*> managed.manager_ctx)


cdef void delete_plain(DLManagedTensor* managed) noexcept nogil:
    release(<Record*> managed.manager_ctx)


cdef void drop_versioned_capsule(object capsule) noexcept:
    cdef DLManagedTensorVersioned* managed
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        managed = <DLManagedTensorVersioned*> PyCapsule_GetPointer(capsule, "dltensor_versioned")
        managed.deleter(managed)


cdef void drop_plain_capsule(object capsule) noexcept:
    cdef DLManagedTensor* managed
    if PyCapsule_IsValid(capsule, "dltensor"):
        managed = <DLManagedTensor*> PyCapsule_GetPointer(capsule, "dltensor")
        managed.deleter(managed)


cdef tuple dlpack_device(TensorCore tensor):
    """DLPack's type and index of the tensor's device."""
    tensor.require_open()
    if tensor.place.type >= 64:
        raise BufferError(f"DLPack has no device type like {tensor.device}")
    kind = DLPACK_CPU if tensor.place.type == 0 else DLPACK_CUDA if tensor.place.type == 1 else tensor.place.type
    return kind, tensor.place.index


cdef Record* new_record(TensorCore tensor, int device_type, bint versioned) except NULL:
    """Describe the tensor and count the record as one of its exports."""
    cdef Record* record
    cdef DLTensor* out
    cdef int d
    kind = dlpack_dtype(tensor.code)
    if kind.bits == 0:
        raise BufferError(f"DLPack has no dtype like {tensor.dtype}")
    if not tensor.is_cpu():
        refuse_opaque(tensor)
    record = <Record*> malloc(sizeof(Record) + (2 * tensor.rank + 1) * sizeof(int64_t))
    if record == NULL:
        raise MemoryError
    dims = <int64_t*> (record + 1)
    for d in range(tensor.rank):
        dims[d], dims[tensor.rank + d] = tensor.sizes[d], tensor.steps[d]
    out = &record.managed.versioned.dl_tensor if versioned else &record.managed.plain.dl_tensor
    out.data, out.byte_offset = tensor.data, 0
    if not tensor.is_cpu():
        out.data, out.byte_offset = <void*> tensor.source.c_obj.handle, tensor.source.c_obj.offset
    out.device.device_type, out.device.device_id = device_type, tensor.place.index
    out.ndim, out.dtype, out.shape, out.strides = tensor.rank, kind, dims, dims + tensor.rank
    record.tensor = <PyObject*> tensor
    Py_INCREF(tensor)
    tensor.exports += 1
    return record


cdef int refuse_opaque(TensorCore tensor) except -1:
    kind = tensor.source.c_obj.kind
    if kind not in (ETARENA_RESOURCE_DEVICE_POINTER, ETARENA_RESOURCE_HOST, ETARENA_RESOURCE_VK_BUFFER):
        raise BufferError(f"DLPack cannot say what a {kind_name(kind)} is; only pointers and Vulkan buffers")
    return 0


cdef Record* new_versioned(TensorCore tensor, bint copied) except NULL:
    cdef Record* record = new_record(tensor, dlpack_device(tensor)[0], True)
    cdef DLManagedTensorVersioned* managed = &record.managed.versioned
    managed.version.major, managed.version.minor = 1, 0
    managed.manager_ctx, managed.deleter = record, delete_versioned
    managed.flags = (DLPACK_READ_ONLY if tensor.readonly else 0) | (DLPACK_COPIED if copied else 0)
    return record


cdef object versioned_capsule(TensorCore tensor, bint copied):
    cdef Record* record = new_versioned(tensor, copied)
    try:
        return PyCapsule_New(&record.managed.versioned, "dltensor_versioned", drop_versioned_capsule)
    except BaseException:
        release(record)
        raise


cdef object plain_capsule(TensorCore tensor):
    """What consumers from before DLPack 1.0 take; it cannot say that memory is read-only."""
    cdef Record* record
    if tensor.readonly:
        raise BufferError("this tensor is read-only, which DLPack before 1.0 cannot say: ask with max_version=(1, 0)")
    record = new_record(tensor, dlpack_device(tensor)[0], False)
    record.managed.plain.manager_ctx, record.managed.plain.deleter = record, delete_plain
    try:
        return PyCapsule_New(&record.managed.plain, "dltensor", drop_plain_capsule)
    except BaseException:
        release(record)
        raise


cdef object torch_tensor_of(TensorCore tensor):
    cdef void* out = NULL
    table = exchange_table()
    cdef Record* record = new_versioned(tensor, False)
    try:
        table.managed_tensor_to_py_object_no_sync(&record.managed.versioned, &out)
    except BaseException:
        release(record)
        raise
    result = <object> <PyObject*> out
    Py_DECREF(result)                    # the table hands out a new reference
    return result
