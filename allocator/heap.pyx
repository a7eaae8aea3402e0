"""Which ranges of a heap are free: bump allocation for fresh memory, free lists by size for reuse.

Works on offsets only and never touches the memory it manages, so a write past the end of a block cannot damage it. Free
ranges are kept in lists by size, eight classes for each power of two, with a bitmap of the lists that are not empty
(Masmano et al., TLSF: a new dynamic memory allocator for real-time systems, ECRTS 2004). Neighbours coalesce when
freed, and a free range at the top melts back into the memory never handed out. All but growth of the tables is O(1).
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free as c_free
from libc.stdlib cimport malloc, realloc

__all__ = ["Heap"]

cdef enum:
    NONE = -1
    PROBES = 8                  # ranges of the very size class looked at before a larger class is opened
    HIGHEST_ENTRY = 1 << 30


cdef extern from * nogil:
    """
    static inline int top_bit(uint64_t word) { return 63 - __builtin_clzll(word); }
    static inline int low_bit(uint64_t word) { return __builtin_ctzll(word); }
    """
    int top_bit(uint64_t word) noexcept
    int low_bit(uint64_t word) noexcept


cdef inline int bin_of(int64_t size) noexcept nogil:
    """The size class: exact below eight granules, then eight classes for each power of two, rounded down."""
    cdef uint64_t granules = <uint64_t>size // GRANULE
    cdef int exponent
    if granules < 8:
        return <int>granules
    exponent = top_bit(granules)
    return (exponent - 2) * 8 + <int>((granules >> (exponent - 3)) & 7)


cdef inline int64_t align_up(int64_t value, int64_t alignment) noexcept nogil:
    return (value + alignment - 1) & ~(alignment - 1)


cdef class Heap:
    """Offsets in ``[0, limit)``; used by `Arena` only, which commits the memory and holds the mutex."""

    def __cinit__(self, limit: int, origin: int):
        cdef int i
        if not 0 <= limit < 2**62:
            raise ValueError(f"a heap of {limit} bytes is out of range")
        self.limit = limit
        self.origin = origin
        self.unused = self.lowest = self.highest = NONE
        for i in range(BIN_WORDS * 64):
            self.bins[i] = NONE
        if self._reserve_entries(2) != 0 or self._grow_table() != 0:
            raise MemoryError()

    def __dealloc__(self):
        c_free(self.ranges)
        c_free(self.table)

    cdef int64_t alloc(self, int64_t nbytes, int64_t alignment) noexcept nogil:
        cdef int64_t size, padding, start, end
        cdef int32_t index, before
        if nbytes > self.limit or alignment > self.limit:
            return HEAP_FULL
        if self._reserve_entries(2) != 0 or (2 * (self.n_live + 1) > 1 << self.table_bits and self._grow_table() != 0):
            return HEAP_NO_METADATA
        size = align_up(nbytes, GRANULE) if nbytes > 0 else GRANULE
        padding = alignment - GRANULE if alignment > GRANULE else 0
        index = self._fit(size + padding)
        if index == NONE:
            start = align_up(self.origin + self.top, alignment) - self.origin
            if start > self.limit - size:
                return HEAP_FULL
            if start > self.top:
                self._list(self._insert(self.top, start - self.top, self.highest))
            index = self._insert(start, size, self.highest)
            self.top = start + size
        else:
            self._unlist(index)
            start = align_up(self.origin + self.ranges[index].offset, alignment) - self.origin
            end = self.ranges[index].offset + self.ranges[index].size
            if start > self.ranges[index].offset:
                before = index
                self.ranges[before].size = start - self.ranges[before].offset
                index = self._insert(start, end - start, before)
                self._list(before)
            if end > start + size:
                self.ranges[index].size = size
                self._list(self._insert(start + size, end - start - size, index))
        self.ranges[index].requested = nbytes
        self._register(index)
        self.n_live += 1
        self.allocations += 1
        self.live += nbytes
        self.peak = max(self.peak, self.live)
        return start

    cdef int32_t find(self, int64_t offset) noexcept nogil:
        return self.table[self._slot(offset)]

    cdef void free(self, int32_t index) noexcept nogil:
        cdef int32_t neighbour
        self._unregister(index)
        self.n_live -= 1
        self.frees += 1
        self.live -= self.ranges[index].requested
        neighbour = self.ranges[index].after
        if neighbour != NONE and self.ranges[neighbour].requested < 0:
            self._unlist(neighbour)
            self.ranges[index].size += self.ranges[neighbour].size
            self._remove(neighbour)
        neighbour = self.ranges[index].before
        if neighbour != NONE and self.ranges[neighbour].requested < 0:
            self._unlist(neighbour)
            self.ranges[neighbour].size += self.ranges[index].size
            self._remove(index)
            index = neighbour
        if index == self.highest:
            self.top = self.ranges[index].offset
            self._remove(index)
        else:
            self._list(index)

    cdef int64_t largest_free(self) noexcept nogil:
        cdef int word
        cdef int32_t index
        cdef int64_t largest = 0
        for word in range(BIN_WORDS - 1, -1, -1):
            if self.occupied[word] != 0:
                index = self.bins[word * 64 + top_bit(self.occupied[word])]
                while index != NONE:
                    largest = max(largest, self.ranges[index].size)
                    index = self.ranges[index].next
                break
        return largest

    cdef int32_t _fit(self, int64_t needed) noexcept nogil:
        """A free range of at least `needed` bytes, or NONE."""
        cdef int bin = bin_of(needed)
        cdef int word = bin >> 6
        cdef int probes = 0
        cdef int32_t index = self.bins[bin]
        cdef uint64_t larger
        while index != NONE and probes < PROBES:
            if self.ranges[index].size >= needed:
                return index
            index = self.ranges[index].next
            probes += 1
        larger = self.occupied[word] & ~((<uint64_t>2 << (bin & 63)) - 1)
        while larger == 0:
            word += 1
            if word == BIN_WORDS:
                return NONE
            larger = self.occupied[word]
        return self.bins[word * 64 + low_bit(larger)]

    cdef int _reserve_entries(self, int32_t extra) noexcept nogil:
        """Make sure that `extra` entries are unused, so that a split cannot fail half way."""
        cdef int32_t index = self.unused
        cdef int32_t capacity, i
        cdef Range* ranges
        for _ in range(extra):
            if index == NONE:
                break
            index = self.ranges[index].next
        else:
            return 0
        capacity = 64 if self.capacity == 0 else 2 * self.capacity
        if capacity > HIGHEST_ENTRY:
            return -1
        ranges = <Range*>realloc(self.ranges, capacity * sizeof(Range))
        if ranges is NULL:
            return -1
        self.ranges = ranges
        for i in range(capacity - 1, self.capacity - 1, -1):
            ranges[i].next = self.unused
            self.unused = i
        self.capacity = capacity
        return 0

    cdef int32_t _insert(self, int64_t offset, int64_t size, int32_t before) noexcept nogil:
        """Take an entry for a new range behind `before` in address order."""
        cdef int32_t index = self.unused
        cdef int32_t after = self.lowest if before == NONE else self.ranges[before].after
        self.unused = self.ranges[index].next
        self.ranges[index] = Range(offset, size, -1, before, after, NONE, NONE)
        if before == NONE:
            self.lowest = index
        else:
            self.ranges[before].after = index
        if after == NONE:
            self.highest = index
        else:
            self.ranges[after].before = index
        return index

    cdef void _remove(self, int32_t index) noexcept nogil:
        cdef int32_t before = self.ranges[index].before
        cdef int32_t after = self.ranges[index].after
        if before == NONE:
            self.lowest = after
        else:
            self.ranges[before].after = after
        if after == NONE:
            self.highest = before
        else:
            self.ranges[after].before = before
        self.ranges[index].next = self.unused
        self.unused = index

    cdef void _list(self, int32_t index) noexcept nogil:
        """Make a range free."""
        cdef int bin = bin_of(self.ranges[index].size)
        cdef int32_t head = self.bins[bin]
        self.ranges[index].requested = -1
        self.ranges[index].previous = NONE
        self.ranges[index].next = head
        if head != NONE:
            self.ranges[head].previous = index
        self.bins[bin] = index
        self.occupied[bin >> 6] |= <uint64_t>1 << (bin & 63)
        self.n_free += 1
        self.free_bytes += self.ranges[index].size

    cdef void _unlist(self, int32_t index) noexcept nogil:
        cdef int bin = bin_of(self.ranges[index].size)
        cdef int32_t previous = self.ranges[index].previous
        cdef int32_t next = self.ranges[index].next
        if next != NONE:
            self.ranges[next].previous = previous
        if previous != NONE:
            self.ranges[previous].next = next
        else:
            self.bins[bin] = next
            if next == NONE:
                self.occupied[bin >> 6] &= ~(<uint64_t>1 << (bin & 63))
        self.n_free -= 1
        self.free_bytes -= self.ranges[index].size

    cdef int32_t _slot(self, int64_t offset) noexcept nogil:
        """Slot of the live range at `offset`, or the empty slot where it belongs."""
        cdef uint64_t mask = (<uint64_t>1 << self.table_bits) - 1
        cdef uint64_t slot = home_slot(offset, self.table_bits)
        while self.table[slot] != NONE and self.ranges[self.table[slot]].offset != offset:
            slot = (slot + 1) & mask
        return <int32_t>slot

    cdef void _register(self, int32_t index) noexcept nogil:
        self.table[self._slot(self.ranges[index].offset)] = index

    cdef void _unregister(self, int32_t index) noexcept nogil:
        """Empty the slot and move back whatever had probed past it."""
        cdef uint64_t mask = (<uint64_t>1 << self.table_bits) - 1
        cdef uint64_t hole = self._slot(self.ranges[index].offset)
        cdef uint64_t slot = hole
        cdef uint64_t home
        while True:
            slot = (slot + 1) & mask
            if self.table[slot] == NONE:
                break
            home = home_slot(self.ranges[self.table[slot]].offset, self.table_bits)
            if ((slot - home) & mask) >= ((slot - hole) & mask):
                self.table[hole] = self.table[slot]
                hole = slot
        self.table[hole] = NONE

    cdef int _grow_table(self) noexcept nogil:
        cdef int32_t bits = 6 if self.table is NULL else self.table_bits + 1
        cdef int32_t* old = self.table
        cdef int32_t* grown = <int32_t*>malloc((<size_t>1 << bits) * sizeof(int32_t))
        cdef int64_t i
        if grown is NULL:
            return -1
        for i in range(<int64_t>1 << bits):
            grown[i] = NONE
        self.table = grown
        if old is not NULL:
            for i in range(<int64_t>1 << self.table_bits):
                if old[i] != NONE:
                    insert_slot(grown, bits, old[i], self.ranges[old[i]].offset)
        self.table_bits = bits
        c_free(old)
        return 0


cdef inline uint64_t home_slot(int64_t offset, int32_t bits) noexcept nogil:
    """Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""
    return (<uint64_t>offset // GRANULE * <uint64_t>0x9E3779B97F4A7C15) >> (64 - bits)


cdef void insert_slot(int32_t* table, int32_t bits, int32_t index, int64_t offset) noexcept nogil:
    cdef uint64_t mask = (<uint64_t>1 << bits) - 1
    cdef uint64_t slot = home_slot(offset, bits)
    while table[slot] != NONE:
        slot = (slot + 1) & mask
    table[slot] = index
