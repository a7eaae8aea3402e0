from libc.stdint cimport int64_t


cdef class GrowingBlock:
    cdef object __weakref__
    cdef readonly str name
    cdef char* base                         # reserved address space; NULL until the first row is asked for
    cdef size_t reserved                    # bytes of it, of which the last page is slack
    cdef size_t wanted                      # bytes of it to ask the system for
    cdef size_t begin                       # bytes from base: where the first row lies
    cdef size_t usable_from                 # bytes from base: usable pages are those between the two
    cdef size_t usable_to
    cdef readonly int64_t row_bytes
    cdef readonly int64_t rows              # rows that count
    cdef int exports                        # buffers handed out and not released

    # Where the first row lies; NULL before any was asked for.
    cdef char* address(self) noexcept nogil
    # Make room for so many rows from the first on, without touching those that count. ArenaFullError.
    cdef int reserve_rows(self, int64_t rows) except -1
    # So many rows count now, of which only the last `window` (0: all) are kept. They were made usable before.
    cdef void keep(self, int64_t rows, int64_t window) noexcept nogil
    cdef void release(self, size_t begin, size_t end) noexcept nogil
    cdef int take_address_space(self, size_t nbytes) except -1
    cdef int wrap(self, size_t nbytes) except -1
