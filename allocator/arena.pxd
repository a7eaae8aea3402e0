from libc.stdint cimport int32_t

from .heap cimport Heap
from .pages cimport Region


cdef class Arena:
    cdef object __weakref__
    cdef readonly str name
    cdef char* base_address                 # never moves; NULL once closed
    cdef readonly size_t reserve            # bytes of address space from base_address
    cdef readonly size_t activation_reserve  # bytes of it that form the activation region; the heap lies above
    cdef Region activations
    cdef Region heap_pages
    cdef bint closed
    cdef Heap heap
    cdef void* lock                         # guards heap and regions; the GIL is never taken inside
    cdef void* turn_lock                    # held while a method uses the activation region

    # Commits at least nbytes from base_address plus a page of readable slack; never shrinks. ArenaFullError.
    cdef int ensure_activations_nogil(self, size_t nbytes) except -1 nogil
    # A heap block with at least 64 readable bytes behind it; zero bytes give a valid unique address. ArenaFullError.
    cdef void* heap_alloc(self, size_t nbytes, size_t alignment) except NULL nogil
    # Error for an address that is no live block: freed before, or from elsewhere.
    cdef int heap_free(self, void* address) except -1 nogil
    # Bytes that were asked for.
    cdef int heap_size(self, void* address, size_t* nbytes) except -1 nogil
    # The turn: whoever holds it has the activation region for itself. Taken and given back by one thread.
    cdef int enter(self) except -1
    cdef void leave(self) noexcept

    cdef int32_t find_block(self, void* address) noexcept nogil
    cdef void drop_pages(self) noexcept nogil
    cdef void fill_unused(self, int byte) noexcept nogil
    cdef void unmap_if_unused(self) noexcept nogil
    cdef size_t count_bytes(self, nbytes) except? 0


cdef class Block:
    cdef object __weakref__
    cdef Arena arena                        # keeps the mapping alive
    cdef char* start                        # NULL once freed
    cdef Py_ssize_t length
    cdef int exports                        # buffers handed out and not released


cdef class Turn:
    cdef Arena arena
