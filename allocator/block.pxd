from .arena_core cimport ArenaCore
from .heap_core cimport HeapHandle


cdef class Block:
    cdef object __weakref__
    cdef ArenaCore arena                    # keeps the mapping alive
    cdef char* start                        # NULL once freed
    cdef Py_ssize_t length
    cdef HeapHandle handle                  # no longer live once the arena was rewound
    cdef int exports                        # buffers handed out and not released

    cdef bint is_live(self) noexcept
    cdef int require_live(self) except -1
    cdef int require_unused(self) except -1


cdef Block new_block(ArenaCore arena, size_t nbytes, size_t alignment)
