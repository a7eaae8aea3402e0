from libc.stdint cimport int64_t

from .events cimport EventRing
from .heap cimport Heap
from .heap_core cimport HeapHandle
from .pages cimport Region

cdef extern from * nogil:
    """
    #define ETARENA_LARGEST_RESERVE ((size_t)1 << 47)
    """
    const size_t LARGEST_RESERVE "ETARENA_LARGEST_RESERVE"      # bytes


cdef class ArenaCore:
    cdef object __weakref__
    cdef readonly str name
    cdef char* base_address                 # never moves; NULL once closed
    cdef readonly size_t reserve            # bytes of address space from base_address
    cdef readonly size_t activation_reserve  # bytes of it that form the activation region; the heap lies above
    cdef readonly bint huge_pages           # whether the system was asked for them and agreed
    cdef readonly bint poison               # freed memory is filled, and checked when it is handed out again
    cdef readonly bint guard                # a page without access behind every block
    cdef bint is_plain                      # neither of the two
    cdef size_t page                        # bytes; here it is at hand
    cdef Region activations
    cdef Region heap_pages
    cdef bint closed
    cdef Heap heap
    cdef EventRing ring
    cdef int64_t poisoned                   # bytes of the heap below which everything free is poisoned
    cdef void* lock                         # guards heap, ring and regions; the GIL is never taken inside
    cdef void* turn_lock                    # held while a method uses the activation region

    # Commits at least nbytes from base_address plus a page of readable slack; never shrinks. ArenaFullError.
    cdef int ensure_activations_nogil(self, size_t nbytes) except -1 nogil
    # The same for whoever has the turn, without the lock if that much is usable: only turns make it less.
    cdef inline int ensure_activations_in_turn(self, size_t nbytes) except -1 nogil:
        if nbytes <= self.activations.committed and self.page <= self.activations.committed - nbytes:
            return 0
        return self.ensure_activations_nogil(nbytes)

    # A heap block with at least 64 readable bytes behind it; zero bytes give a valid unique address. ArenaFullError.
    cdef inline void* heap_alloc(self, size_t nbytes, size_t alignment) except NULL nogil:
        cdef HeapHandle handle
        return self.allocate(nbytes, alignment, False, &handle)

    # Error for an address that is no live block: freed before, or from elsewhere.
    cdef int heap_free(self, void* address) except -1 nogil
    # Bytes that were asked for.
    cdef int heap_size(self, void* address, size_t* nbytes) except -1 nogil
    # The turn: whoever holds it has the activation region for itself. Taken and given back by one thread.
    cdef int enter(self) except -1
    cdef void leave(self) noexcept

    # The same by handle, which spares looking the address up. scoped: `rewind` frees it.
    cdef char* allocate(self, size_t nbytes, size_t alignment, bint scoped, HeapHandle* handle) except NULL nogil
    cdef int release(self, HeapHandle handle) except -1 nogil
    cdef bint resize_in_place(self, HeapHandle handle, size_t nbytes) noexcept nogil
    cdef bint pin(self, HeapHandle handle, int change) noexcept nogil       # False: no live block

    cdef size_t count_bytes(self, nbytes) except? 0

    # Lock held:
    cdef char* address_of(self, HeapHandle handle) noexcept nogil
    cdef int find_block(self, void* address, HeapHandle* handle) noexcept nogil
    cdef int64_t lead_of(self, int64_t nbytes, int64_t alignment) noexcept nogil
    cdef int allocate_checked(
        self, size_t nbytes, size_t alignment, HeapHandle* handle, char** address
    ) noexcept nogil
    cdef int prepare(self, HeapHandle handle) noexcept nogil
    cdef int64_t rewind_to(self, int64_t mark) noexcept nogil
    cdef int free_block(self, HeapHandle handle) noexcept nogil
    cdef void poison_fresh(self) noexcept nogil
    cdef void drop_pages(self) noexcept nogil
    cdef void fill_unused(self, int byte) noexcept nogil
    cdef void unmap_if_unused(self) noexcept nogil
