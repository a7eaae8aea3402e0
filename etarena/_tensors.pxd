"""Tensors across the border: what a caller passes in, read in place, and results on arena memory, handed out."""

from libc.stdint cimport int32_t, uint8_t

from etarena.allocator.arena cimport Arena
from etarena.device.dlpack cimport DLTensor


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
