from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

cdef enum:
    GRANULE = 64                # ranges start and end on multiples of this
    BIN_WORDS = 8
    HEAP_FULL = -1              # what Heap.alloc gives instead of an offset
    HEAP_NO_METADATA = -2


cdef struct Range:
    int64_t offset              # bytes from the heap's origin
    int64_t size                # bytes, a multiple of GRANULE
    int64_t requested           # bytes asked for; -1 marks a free range
    int32_t before              # neighbours in address order, -1 at the ends
    int32_t after
    int32_t previous            # neighbours in the free list of its size; `next` also chains unused entries
    int32_t next


cdef class Heap:
    cdef int64_t limit          # bytes it may hand out
    cdef int64_t origin         # absolute address of offset 0, for alignment
    cdef int64_t top            # nothing at or above this offset is in use
    cdef int64_t live           # bytes asked for by live blocks, and the largest this ever was
    cdef int64_t peak
    cdef int64_t free_bytes     # in free ranges below top
    cdef int32_t n_live
    cdef int32_t n_free
    cdef int64_t allocations
    cdef int64_t frees

    cdef Range* ranges
    cdef int32_t capacity       # of ranges
    cdef int32_t unused         # chain of unused entries of ranges
    cdef int32_t lowest         # range at offset 0
    cdef int32_t highest        # range that ends at top
    cdef int32_t bins[BIN_WORDS * 64]
    cdef uint64_t occupied[BIN_WORDS]
    cdef int32_t* table         # open addressing: slot -> live range, -1 empty
    cdef int32_t table_bits

    # Not thread-safe: the arena holds its mutex. alloc gives an offset, HEAP_FULL or HEAP_NO_METADATA; nbytes >= 0,
    # alignment is a power of two. find gives a live range or -1. free takes what find gave.
    cdef int64_t alloc(self, int64_t nbytes, int64_t alignment) noexcept nogil
    cdef int32_t find(self, int64_t offset) noexcept nogil
    cdef void free(self, int32_t index) noexcept nogil
    cdef int64_t largest_free(self) noexcept nogil

    cdef int32_t _fit(self, int64_t needed) noexcept nogil
    cdef int _reserve_entries(self, int32_t extra) noexcept nogil
    cdef int _grow_table(self) noexcept nogil
    cdef int32_t _insert(self, int64_t offset, int64_t size, int32_t before) noexcept nogil
    cdef void _remove(self, int32_t index) noexcept nogil
    cdef void _list(self, int32_t index) noexcept nogil
    cdef void _unlist(self, int32_t index) noexcept nogil
    cdef void _register(self, int32_t index) noexcept nogil
    cdef void _unregister(self, int32_t index) noexcept nogil
    cdef int32_t _slot(self, int64_t offset) noexcept nogil
