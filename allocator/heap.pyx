"""The C heap of heap_core.h as a class; in a debug build every change is followed by a check of all its equations.

Works on offsets only and never touches the memory it manages.
"""

from libc.stdint cimport int64_t
from libc.stdio cimport fprintf, stderr
from libc.stdlib cimport abort, malloc

from .heap_core cimport (
    ETARENA_DEBUG, HEAP_BAD_ARGUMENT, HEAP_ENDS, HEAP_OK, HeapCore, HeapHandle, HeapNode, HeapRelease,
    heap_alloc, heap_alloc_aligned, heap_can_rewind, heap_destroy, heap_fault, heap_find, heap_free, heap_init,
    heap_largest_free, heap_n_free, heap_n_live, heap_release_all, heap_resize, heap_rewind,
    heap_scope, heap_set_release, heap_settle,
    heap_youngest_since,
)

__all__ = ["Heap"]


cdef void check(const HeapCore* core) noexcept nogil:
    cdef const char* fault
    if ETARENA_DEBUG:
        fault = heap_fault(core)
        if fault is not NULL:
            fprintf(stderr, b"etarena: the heap is broken, this does not hold: %s\n", fault)
            abort()


cdef class Heap:
    """Offsets in ``[0, limit)``; the owner commits the memory, if there is any, and holds a mutex.

    Parameters
    ----------
    limit : int
        Bytes it may hand out.
    origin : int
        Absolute address of offset 0, for alignment.
    granule : int, optional
        Every block is a multiple of this and aligned to it.
    """

    def __cinit__(self, limit: int, origin: int, granule: int = 64):
        cdef int status = HEAP_BAD_ARGUMENT
        if 0 <= limit <= 1 << 61 and 0 <= origin <= 1 << 61 and 0 < granule <= 1 << 61:
            status = heap_init(&self.core, limit, origin, granule, True)
        if status == HEAP_BAD_ARGUMENT:
            raise ValueError(
                f"a heap of {limit} bytes from {origin} in granules of {granule} bytes is out of range, or the granule "
                "is no power of two that divides the origin"
            )
        if status != HEAP_OK:
            raise MemoryError()

    def __dealloc__(self):
        heap_destroy(&self.core)

    cdef HeapHandle alloc(self, int64_t nbytes, int64_t alignment) noexcept nogil:
        cdef HeapHandle handle
        if 0 < alignment <= self.core.granule and alignment & (alignment - 1) == 0:
            handle = heap_alloc(&self.core, nbytes)
        else:
            handle = heap_alloc_aligned(&self.core, nbytes, alignment)
        check(&self.core)
        return handle

    cdef int free(self, HeapHandle handle) noexcept nogil:
        cdef int status = heap_free(&self.core, handle)
        check(&self.core)
        return status

    cdef int resize(self, HeapHandle handle, int64_t nbytes) noexcept nogil:
        cdef int status = heap_resize(&self.core, handle, nbytes)
        check(&self.core)
        return status

    cdef int find(self, int64_t offset, HeapHandle* handle) noexcept nogil:
        return heap_find(&self.core, offset, handle)

    cdef void scope(self, HeapHandle handle) noexcept nogil:
        heap_scope(&self.core, handle)

    cdef int can_rewind(self, int64_t mark) noexcept nogil:
        return heap_can_rewind(&self.core, mark)

    cdef HeapHandle youngest_since(self, int64_t mark) noexcept nogil:
        return heap_youngest_since(&self.core, mark)

    cdef int rewind(self, int64_t mark, int64_t* n_freed) noexcept nogil:
        cdef int status = heap_rewind(&self.core, mark, n_freed)
        check(&self.core)
        return status

    cdef void settle(self) noexcept nogil:
        heap_settle(&self.core)

    cdef void release_with(self, HeapRelease release, void* context) noexcept nogil:
        heap_set_release(&self.core, release, context)

    cdef void release_all(self) noexcept nogil:
        heap_release_all(&self.core)
        check(&self.core)

    cdef int64_t largest_free(self) noexcept nogil:
        return heap_largest_free(&self.core)

    cdef int64_t copy_ranges(self, int64_t** numbers) noexcept nogil:
        cdef int64_t count = 0
        cdef HeapNode* node
        heap_settle(&self.core)
        numbers[0] = <int64_t*>malloc((heap_n_live(&self.core) + heap_n_free(&self.core) + 1) * 3 * sizeof(int64_t))
        if numbers[0] is NULL:
            return -1
        node = &self.core.nodes[self.core.nodes[HEAP_ENDS].after]
        while node != &self.core.nodes[HEAP_ENDS]:
            numbers[0][3 * count] = node.offset
            numbers[0][3 * count + 1] = node.size
            numbers[0][3 * count + 2] = node.requested
            count += 1
            node = &self.core.nodes[node.after]
        return count
