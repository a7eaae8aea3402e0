from libc.stdint cimport int64_t

cdef size_t PAGE                        # bytes


cdef class Region:
    cdef char* start
    cdef size_t limit                   # bytes of address space, of which the last page is slack
    cdef size_t committed               # readable and writable bytes from start

    # Make nbytes (<= limit - PAGE) and a page of slack usable; gives whether the system grants it. Not thread-safe.
    cdef bint commit(self, size_t nbytes) noexcept nogil
    # Give back all pages but those of the first nbytes and their slack; none are kept for zero bytes.
    cdef void shrink(self, size_t nbytes) noexcept nogil
    # Exchange the whole pages between two offsets for fresh ones.
    cdef void renew(self, size_t start, size_t end) noexcept nogil


cdef Region new_region(char* start, size_t limit)
cdef char* reserve_pages(size_t nbytes) noexcept nogil      # NULL and errno if the system refuses
cdef void unreserve_pages(char* start, size_t nbytes) noexcept nogil
cdef size_t round_to_pages(size_t nbytes) noexcept nogil
# As HeapRelease of heap_core.h: the context is the address of offset 0.
cdef int64_t release_pages(void* start, int64_t offset, int64_t size) noexcept nogil
cdef bint ask_for_huge_pages(char* start, size_t nbytes) noexcept nogil     # whether the system has any
cdef bint guard_page(char* page, bint closed) noexcept nogil                # forbid or allow access; whether granted
