"""What freed memory is filled with, and where it was changed since."""

from libc.stdint cimport int64_t


cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    #define ALLOCATOR_POISON 0xDD

    /* Offset of the first byte that is no poison, -1 if there is none. */
    static inline int64_t poison_first_change(const char *start, int64_t nbytes) {
        if (nbytes <= 0 || (*(const unsigned char *)start == ALLOCATOR_POISON &&
                            memcmp(start, start + 1, (size_t)nbytes - 1) == 0)) return -1;
        for (int64_t i = 0; i < nbytes; i++) {
            if ((unsigned char)start[i] != ALLOCATOR_POISON) return i;
        }
        return -1;
    }
    """
    int POISON "ALLOCATOR_POISON"
    int64_t first_change "poison_first_change"(const char* start, int64_t nbytes) noexcept
