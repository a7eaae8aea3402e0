from libc.stdint cimport int64_t

from .heap_core cimport HeapCore, HeapHandle, HeapRelease


cdef class Heap:
    cdef HeapCore core          # counters and nodes may be read; call settle first

    # Not thread-safe: the owner holds its mutex. Statuses are those of heap_core.h.
    cdef HeapHandle alloc(self, int64_t nbytes, int64_t alignment) noexcept nogil
    cdef int free(self, HeapHandle handle) noexcept nogil
    cdef int resize(self, HeapHandle handle, int64_t nbytes) noexcept nogil
    cdef int find(self, int64_t offset, HeapHandle* handle) noexcept nogil
    cdef void scope(self, HeapHandle handle) noexcept nogil
    cdef int can_rewind(self, int64_t mark) noexcept nogil
    cdef HeapHandle youngest_since(self, int64_t mark) noexcept nogil
    cdef int rewind(self, int64_t mark, int64_t* n_freed) noexcept nogil
    cdef void settle(self) noexcept nogil
    cdef void release_with(self, HeapRelease release, void* context) noexcept nogil
    cdef void release_all(self) noexcept nogil
    cdef int64_t largest_free(self) noexcept nogil
    # Three numbers for each range in address order: offset, bytes, bytes asked for or < 0 if free; for the caller to
    # give to free(). -1 if there is no memory.
    cdef int64_t copy_ranges(self, int64_t** numbers) noexcept nogil
