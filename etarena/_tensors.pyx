# distutils: language = c++
"""Tensors across the border: what a caller passes in, read in place, and results on arena memory, handed out.

Both directions speak DLPack's C exchange table, which torch offers since 2.10: no Python-level tensor work on the way.
"""

from cpython.buffer cimport PyBUF_RECORDS_RO, Py_buffer, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from etarena.allocator.arena cimport Arena
from etarena.device.dlpack cimport DLPACK_CPU, DLDataType, DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor
from etarena.device.etensor cimport ETensor
from etarena.device.scalar_types cimport buffer_dtype, dlpack_dtype, dtype_code

from .allocator.errors import DeviceError, InputError, InputTypeError
from .device.copies import allow_copy

cdef extern from "Python.h":
    int Py_IsInitialized() nogil

cdef extern from "heap_share.h" namespace "etarena" nogil:
    void add_user(HeapShare* share)
    bint remove_user(HeapShare* share)
    bint readable_range(const void* address, size_t nbytes)


cdef struct ResultTensor:              # one result: the DLPack record torch owns, then its sizes and strides
    DLManagedTensorVersioned managed
    HeapShare* share


cdef struct BorrowedBuffer:            # a caller's buffer seen as a tensor
    DLManagedTensorVersioned managed
    Py_buffer view


cdef DLPackExchangeAPI* exchange = NULL
cdef object torch_tensor = None
cdef object torch_module = None
cdef object numpy = None


cdef int load_torch() except -1:
    """Import torch on first use and find its exchange table."""
    global exchange, torch_tensor, torch_module, numpy
    import numpy as numpy_module
    import torch

    table = <DLPackExchangeAPI*> PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__, "dlpack_exchange_api")
    if table.version.major != 1:
        raise ImportError(f"torch speaks DLPack {table.version.major}, etarena speaks DLPack 1: use torch 2.13")
    numpy, torch_module, torch_tensor, exchange = numpy_module, torch, torch.Tensor, table
    return 0


cdef void release_buffer(DLManagedTensorVersioned* managed) noexcept nogil:
    cdef BorrowedBuffer* borrowed = <BorrowedBuffer*> managed.manager_ctx
    if not Py_IsInitialized():
        return
    with gil:
        PyBuffer_Release(&borrowed.view)
    free(borrowed)


cdef object buffer_tensor(object value, str name, list copies):
    """See a buffer (NumPy array, memoryview, arena block, ...) as a tensor on the same memory, read-only or not.

    Torch has no negative strides and none between items: such buffers are copied, and the copy is counted.
    """
    cdef BorrowedBuffer* borrowed
    cdef int rank, d
    cdef void* result = NULL
    cdef Py_buffer view
    PyObject_GetBuffer(value, &view, PyBUF_RECORDS_RO)
    rank = view.ndim
    dtype = buffer_dtype(&view)
    if dtype.bits == 0:
        kind = (<bytes> view.format).decode()
        PyBuffer_Release(&view)
        raise InputTypeError(f"input {name!r}: a buffer of items {kind!r} cannot be read as a tensor; convert it first")
    if not all(view.strides[d] >= 0 and view.strides[d] % view.itemsize == 0 for d in range(rank)):
        nbytes = view.len
        PyBuffer_Release(&view)
        copies.append(allow_copy(f"input {name!r} has strides that a tensor cannot have", nbytes))
        return torch_module.from_numpy(numpy.array(value, order="C"))
    borrowed = <BorrowedBuffer*> malloc(sizeof(BorrowedBuffer) + 2 * rank * sizeof(int64_t))
    if borrowed == NULL:
        PyBuffer_Release(&view)
        raise MemoryError
    borrowed.view = view
    dims = <int64_t*> (borrowed + 1)
    for d in range(rank):
        dims[d] = view.shape[d]
        dims[rank + d] = view.strides[d] // view.itemsize
    fill_managed(&borrowed.managed, borrowed, release_buffer, view.buf, dtype, rank, dims)
    exchange.managed_tensor_to_py_object_no_sync(&borrowed.managed, &result)
    tensor = <object> <PyObject*> result
    Py_DECREF(tensor)
    return tensor


cdef void fill_managed(
    DLManagedTensorVersioned* managed, void* context, void (*deleter)(DLManagedTensorVersioned*) noexcept nogil,
    void* data, DLDataType dtype, int rank, int64_t* dims,
) noexcept nogil:
    managed.version.major, managed.version.minor = 1, 0
    managed.manager_ctx, managed.deleter, managed.flags = context, deleter, 0
    managed.dl_tensor.data, managed.dl_tensor.byte_offset = data, 0
    managed.dl_tensor.device.device_type, managed.dl_tensor.device.device_id = DLPACK_CPU, 0
    managed.dl_tensor.ndim, managed.dl_tensor.dtype = rank, dtype
    managed.dl_tensor.shape, managed.dl_tensor.strides = dims, dims + rank


cdef object as_torch_tensor(object value, str name, list copies):
    """See `value` as a torch tensor on the same memory; InputTypeError if it is nothing like a tensor."""
    if exchange == NULL:
        load_torch()
    if not isinstance(value, torch_tensor):
        value = foreign_tensor(value, name, copies)
    elif type(value) is not torch_tensor and type(value).__torch_dispatch__ is not torch_tensor.__torch_dispatch__:
        raise InputTypeError(f"input {name!r}: a {type(value).__name__} has no plain memory; pass a torch.Tensor")
    if value.is_neg() or value.is_conj():
        copies.append(allow_copy(f"input {name!r} is a negated or conjugated view", value.nbytes))
        value = value.resolve_conj().resolve_neg()
    return value


cdef object foreign_tensor(object value, str name, list copies):
    """See anything that is no torch tensor as one."""
    if type(value) is ETensor:
        return etensor_view(value, name)
    if PyObject_CheckBuffer(value):
        return buffer_tensor(value, name, copies)
    if not hasattr(value, "__dlpack__"):
        raise InputTypeError(
            f"input {name!r}: expected a tensor, a NumPy array or anything with __dlpack__ or the buffer protocol, "
            f"got {type(value).__name__}"
        )
    try:
        return torch_module.from_dlpack(value)
    except Exception as error:
        kind = type(value).__name__
        raise InputTypeError(f"input {name!r}: __dlpack__ of {kind} failed: {first_line(error)}") from error


cdef object etensor_view(ETensor value, str name):
    try:
        value.require_cpu("a method that runs on the CPU")
        return value.torch()
    except DeviceError as error:
        raise DeviceError(f"input {name!r}: {error}") from error
    except InputTypeError as error:
        raise InputTypeError(f"input {name!r}: {error}") from error


cdef str first_line(object error):
    """What an exception says, without the C++ stack that torch appends."""
    return str(error).partition("\n")[0]


cdef int read_tensor(object tensor, str name, DLTensor* out) except -1:
    """Read where a torch tensor lies and how. Valid while the tensor lives."""
    try:
        exchange.dltensor_from_py_object_no_sync(<void*> <PyObject*> tensor, out)
    except Exception as error:
        raise InputTypeError(
            f"input {name!r}: a {type(tensor).__name__} ({tensor.layout}, device {tensor.device}) cannot be read: "
            f"{first_line(error)}"
        ) from error
    if out.device.device_type != DLPACK_CPU:
        raise InputTypeError(f"input {name!r}: the tensor is on device {tensor.device}, move it to the CPU first")
    storage = tensor.untyped_storage()
    end = <size_t> out.data + out.byte_offset + span_bytes(out)
    if end > <size_t> storage.data_ptr() + <size_t> storage.nbytes():
        raise InputError(f"input {name!r}: the tensor's storage of {storage.nbytes()} bytes is smaller than the tensor")
    return 0


cdef size_t span_bytes(const DLTensor* tensor) noexcept nogil:
    """Bytes from a tensor's first to one past its last item; 0 for an empty one. Strides are never negative."""
    cdef int64_t last = 0
    cdef int d
    for d in range(tensor.ndim):
        if tensor.shape[d] == 0:
            return 0
        last += (tensor.shape[d] - 1) * (tensor.strides[d] if tensor.strides != NULL else row_major_stride(tensor, d))
    return <size_t> (last + 1) * (tensor.dtype.bits // 8)


cdef bint has_layout(const DLTensor* tensor, const uint8_t* dim_order) noexcept nogil:
    """Whether the tensor is dense in this dim order. Dimensions of size 1 fit any order."""
    cdef int64_t step = 1
    cdef int i, d
    for d in range(tensor.ndim):
        if tensor.shape[d] == 0:
            return True
    for i in range(tensor.ndim - 1, -1, -1):
        d = dim_order[i]
        if tensor.shape[d] != 1:
            if (tensor.strides[d] if tensor.strides != NULL else row_major_stride(tensor, d)) != step:
                return False
        step *= tensor.shape[d]
    return True


cdef int64_t row_major_stride(const DLTensor* tensor, int dim) noexcept nogil:
    cdef int64_t step = 1
    cdef int d
    for d in range(dim + 1, tensor.ndim):
        step *= tensor.shape[d]
    return step


cdef bint readable_behind(const void* address, size_t nbytes) noexcept nogil:
    return readable_range(address, nbytes)


cdef HeapShare* new_share(Arena arena, size_t nbytes) except NULL:
    """Take a block from the arena's heap, with one user: the caller."""
    cdef HeapShare* share = <HeapShare*> malloc(sizeof(HeapShare))
    if share == NULL:
        raise MemoryError
    try:
        share.address = arena.heap_alloc(nbytes, 64)
    except BaseException:
        free(share)
        raise
    share.arena, share.nbytes = <void*> arena, nbytes
    share.users.store(1)
    Py_INCREF(arena)
    return share


cdef void drop_share(HeapShare* share) noexcept nogil:
    """One user less; the last one gives the block back. Callable without the GIL, as torch may."""
    if not remove_user(share):
        return
    if not Py_IsInitialized():   # the interpreter is gone, and with it the arena: leak on purpose
        return
    with gil:
        arena = <Arena> <PyObject*> share.arena
        arena.heap_free(share.address)
        Py_DECREF(arena)
    free(share)


cdef void release_result(DLManagedTensorVersioned* managed) noexcept nogil:
    cdef ResultTensor* result = <ResultTensor*> managed.manager_ctx
    drop_share(result.share)
    free(result)


cdef object share_tensor(
    HeapShare* share, void* data, int dtype, int rank, const int32_t* sizes, const int32_t* strides
):
    """Make a torch tensor at `data` inside the share's block; the tensor becomes one more user of it."""
    cdef int d
    cdef void* out = NULL
    if exchange == NULL:
        load_torch()
    kind = dlpack_dtype(dtype)
    if kind.bits == 0:
        raise InputTypeError(f"torch has no dtype for ExecuTorch's dtype code {dtype}")
    result = <ResultTensor*> malloc(sizeof(ResultTensor) + 2 * rank * sizeof(int64_t))
    if result == NULL:
        raise MemoryError
    dims = <int64_t*> (result + 1)
    for d in range(rank):
        dims[d] = sizes[d]
        dims[rank + d] = strides[d]
    result.share = share
    fill_managed(&result.managed, result, release_result, data, kind, rank, dims)
    add_user(share)
    exchange.managed_tensor_to_py_object_no_sync(&result.managed, &out)
    tensor = <object> <PyObject*> out
    Py_DECREF(tensor)   # the table hands out a new reference
    return tensor


cdef bint overlaps(object tensor, object others):
    """Whether a tensor's memory touches that of any other."""
    begin, end = memory_range(tensor)
    for other in others:
        other_begin, other_end = memory_range(other)
        if begin < other_end and other_begin < end:
            return True
    return False


cdef tuple memory_range(object tensor):
    """Addresses from the first to one past the last byte of a strided tensor; strides are never negative in torch."""
    if type(tensor) is ETensor and not (<ETensor> tensor).is_cpu():
        return 0, 0
    if type(tensor) is ETensor:
        return tensor.address, tensor.address + (<ETensor> tensor).span()
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def torch_view(value, str name not None, list copies not None):
    """See an array-like as a CPU torch tensor on the same memory; copies it needs are counted in `copies`."""
    cdef DLTensor view
    tensor = as_torch_tensor(value, name, copies)
    read_tensor(tensor, name, &view)
    return tensor, dtype_code(view.dtype)
