"""Address space whose pages become usable, and go back to the system, piece by piece."""

from libc.stdint cimport int64_t
from posix.mman cimport (
    MADV_DONTNEED, MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ,
    PROT_WRITE, madvise, mmap, mprotect, munmap,
)
from posix.unistd cimport _SC_PAGESIZE, sysconf

__all__ = ["Region"]

PAGE = sysconf(_SC_PAGESIZE)
cdef size_t CHUNK = 2 << 20             # regions grow in steps of this, so that growth is rare


cdef inline size_t round_up(size_t value, size_t step) noexcept nogil:
    return (value + step - 1) // step * step


cdef size_t round_to_pages(size_t nbytes) noexcept nogil:
    return round_up(nbytes, PAGE)


cdef char* reserve_pages(size_t nbytes) noexcept nogil:
    """Address space without memory behind it."""
    cdef void* start = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    return NULL if start == MAP_FAILED else <char*>start


cdef void unreserve_pages(char* start, size_t nbytes) noexcept nogil:
    munmap(start, nbytes)


cdef int64_t release_pages(void* start, int64_t offset, int64_t size) noexcept nogil:
    cdef int64_t first = <int64_t>round_up(offset, PAGE)
    cdef int64_t end = (offset + size) // <int64_t>PAGE * <int64_t>PAGE
    if end <= first or madvise(<char*>start + first, end - first, MADV_DONTNEED) != 0:
        return 0
    return end - first


cdef bint ask_for_huge_pages(char* start, size_t nbytes) noexcept nogil:
    return madvise(start, nbytes, MADV_HUGEPAGE) == 0


cdef bint guard_page(char* page, bint closed) noexcept nogil:
    return mprotect(page, PAGE, PROT_NONE if closed else PROT_READ | PROT_WRITE) == 0


cdef Region new_region(char* start, size_t limit):
    cdef Region region = Region()
    region.start = start
    region.limit = limit
    return region


cdef class Region:
    """Part of a reserved range; the arena that owns the range holds its mutex around every call."""

    cdef bint commit(self, size_t nbytes) noexcept nogil:
        cdef size_t wanted
        if nbytes + PAGE <= self.committed:
            return True
        wanted = min(round_up(nbytes + PAGE, CHUNK), self.limit)
        if mprotect(self.start, wanted, PROT_READ | PROT_WRITE) != 0:
            return False
        self.committed = wanted
        return True

    cdef void shrink(self, size_t nbytes) noexcept nogil:
        cdef size_t keep = round_up(nbytes + PAGE, PAGE) if nbytes > 0 else 0
        cdef char* start = self.start + keep
        if keep >= self.committed:
            return
        if madvise(start, self.committed - keep, MADV_DONTNEED) == 0:
            if mprotect(start, self.committed - keep, PROT_NONE) == 0:
                self.committed = keep

    cdef void renew(self, size_t start, size_t end) noexcept nogil:
        start = round_up(start, PAGE)
        end = end // PAGE * PAGE
        if end > start:
            madvise(self.start + start, end - start, MADV_DONTNEED)
