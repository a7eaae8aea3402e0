"""Declares heap_core.h; only the module `heap` is compiled with it."""

from libc.stdint cimport int64_t, uint32_t


cdef extern from "heap_core.h" nogil:
    enum:
        HEAP_FREE
        HEAP_ENDS "0"
    enum HeapStatus:
        HEAP_OK
        HEAP_FULL
        HEAP_NO_METADATA
        HEAP_NOT_LIVE
        HEAP_PINNED
        HEAP_BAD_ARGUMENT

    ctypedef struct HeapHandle:
        uint32_t node
        uint32_t generation

    ctypedef struct HeapNode:
        int64_t offset
        int64_t size
        int64_t requested
        int64_t backed
        uint32_t before
        uint32_t after
        uint32_t pins
        bint scoped
        int64_t tag

    ctypedef int64_t (*HeapRelease)(void* context, int64_t offset, int64_t size) noexcept nogil

    ctypedef struct HeapCore:
        int64_t limit
        int64_t top
        int64_t extent
        int64_t live
        int64_t peak
        int64_t occupied
        int64_t backed
        int64_t peak_backed
        int64_t allocations
        int64_t frees
        int64_t releases
        int64_t granule
        HeapNode* nodes

    int heap_init(HeapCore* heap, int64_t limit, int64_t origin, int64_t granule, bint indexed) noexcept
    void heap_destroy(HeapCore* heap) noexcept
    void heap_set_release(HeapCore* heap, HeapRelease release, void* context) noexcept
    HeapHandle heap_alloc(HeapCore* heap, int64_t nbytes) noexcept
    HeapHandle heap_alloc_aligned(HeapCore* heap, int64_t nbytes, int64_t alignment) noexcept
    int heap_status(HeapHandle handle) noexcept
    int heap_free(HeapCore* heap, HeapHandle handle) noexcept
    int heap_resize(HeapCore* heap, HeapHandle handle, int64_t nbytes) noexcept
    void heap_scope(HeapCore* heap, HeapHandle handle) noexcept
    int64_t heap_mark(const HeapCore* heap) noexcept
    int heap_can_rewind(const HeapCore* heap, int64_t mark) noexcept
    HeapHandle heap_youngest_since(const HeapCore* heap, int64_t mark) noexcept
    int heap_rewind(HeapCore* heap, int64_t mark, int64_t* n_freed) noexcept
    int heap_find(const HeapCore* heap, int64_t offset, HeapHandle* handle) noexcept
    void heap_settle(HeapCore* heap) noexcept
    void heap_release_all(HeapCore* heap) noexcept
    int64_t heap_largest_free(const HeapCore* heap) noexcept
    const char* heap_fault(const HeapCore* heap) noexcept
    bint heap_is_live(const HeapCore* heap, HeapHandle handle) noexcept
    int64_t heap_free_bytes(const HeapCore* heap) noexcept
    int64_t heap_n_live(const HeapCore* heap) noexcept
    int64_t heap_n_free(const HeapCore* heap) noexcept

cdef extern from "debug.h" nogil:
    int ETARENA_DEBUG
