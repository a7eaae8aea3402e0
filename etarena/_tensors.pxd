"""Tensors across the border: what a caller passes in, read in place, and results on arena memory, handed out."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from etarena.allocator.arena cimport Arena


cdef extern from "dlpack_abi.h" nogil:
    cdef enum:
        DLPACK_CPU
        DLPACK_INT
        DLPACK_UINT
        DLPACK_FLOAT
        DLPACK_BFLOAT
        DLPACK_COMPLEX
        DLPACK_BOOL

    ctypedef struct DLDevice:
        int32_t device_type
        int32_t device_id

    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset

    ctypedef struct DLPackVersion:
        uint32_t major
        uint32_t minor

    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned* self) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor

    ctypedef struct DLPackExchangeAPI:
        DLPackVersion version
        int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out) except -1
        int (*dltensor_from_py_object_no_sync)(void* py_object, DLTensor* out) except -1


cdef extern from "heap_share.h" namespace "etarena" nogil:
    cdef cppclass atomic_int "std::atomic<int>":
        void store(int value)

    cdef struct HeapShare:
        void* arena          # a reference to the arena, whose memory this is
        void* address
        size_t nbytes
        atomic_int users


# Readers of the caller's tensors.
cdef object as_torch_tensor(object value, str name, list copies)       # any array-like, as a tensor on the same memory
cdef int read_tensor(object tensor, str name, DLTensor* out) except -1  # a torch.Tensor, which the caller keeps
cdef int dtype_code(DLDataType dtype) noexcept nogil                   # ExecuTorch ScalarType, -1 when there is none
cdef bint has_layout(const DLTensor* tensor, const uint8_t* dim_order) noexcept nogil
cdef bint overlaps(object tensor, object others)                        # of torch tensors: whether memory is shared
cdef tuple memory_range(object tensor)
cdef bint readable_behind(const void* address, size_t nbytes) noexcept nogil

# Results. A share is one block of the arena's heap with a count of the tensors on it.
cdef HeapShare* new_share(Arena arena, size_t nbytes) except NULL
cdef void drop_share(HeapShare* share) noexcept nogil
cdef object share_tensor(
    HeapShare* share, void* data, int dtype, int rank, const int32_t* sizes, const int32_t* strides
)
