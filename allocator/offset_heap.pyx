"""A heap of offsets into memory that only its owner can touch, such as a device's."""

cimport cython
from libc.stdint cimport int64_t

from .events cimport EVENT_ALLOC, EVENT_FREE, EVENT_RESIZE, EVENT_REWIND, EventRing
from .heap cimport Heap
from .heap_core cimport (
    HEAP_BAD_ARGUMENT, HEAP_FULL, HEAP_OK, HeapCore, HeapHandle, heap_free_bytes, heap_mark, heap_n_free, heap_n_live,
    heap_status,
)
from .mutex cimport mutex_delete, mutex_lock, mutex_new, mutex_unlock
from .observe cimport list_events, take_snapshot

from .arena_stats import HeapStats
from .errors import ArenaFullError, Error
from .trace import AllocationEvent, HeapSnapshot

__all__ = ["OffsetHeap"]

cdef object LARGEST = 1 << 61


@cython.final
cdef class OffsetHeap:
    """Hands out offsets in ``[0, capacity)`` without touching what lies there; the same algorithm as the arena's heap.

    Parameters
    ----------
    capacity : int
        Bytes, at most 2**61; rounded down to a multiple of the alignment.
    alignment : int, optional
        A power of two; every offset and the extent of every block is a multiple of it. 64 bytes by default.
    name : str, optional
        Used in messages.
    trace : int, optional
        How many of the last events to keep for `events`; none by default.

    Raises
    ------
    ValueError
        Capacity or alignment out of range.

    Notes
    -----
    Thread-safe; a block may be freed by any thread.
    """

    cdef object __weakref__
    cdef readonly str name
    cdef Heap heap
    cdef EventRing ring
    cdef void* lock

    def __cinit__(self, capacity: int, alignment: int = 64, *, name: str = "heap", trace: int = 0):
        self.name = name
        self.heap = Heap(capacity, 0, alignment)
        self.ring = EventRing(trace)
        self.lock = mutex_new(True)
        if self.lock is NULL:
            raise MemoryError()

    def __dealloc__(self):
        mutex_delete(self.lock)

    def __repr__(self) -> str:
        return f"<OffsetHeap {self.name!r} capacity={self.capacity}>"

    @property
    def capacity(self) -> int:
        """Bytes that can be handed out."""
        return self.heap.core.limit

    @property
    def alignment(self) -> int:
        """Bytes; every offset is a multiple."""
        return self.heap.core.granule

    @property
    def stats(self) -> HeapStats:
        """A consistent snapshot of the counters."""
        cdef HeapCore* core = &self.heap.core
        mutex_lock(self.lock)
        self.heap.settle()
        cdef int64_t free_bytes = heap_free_bytes(core)
        cdef int64_t largest = self.heap.largest_free()
        cdef int64_t[8] counts = [
            core.live, core.peak, core.top, core.extent, heap_n_live(core), heap_n_free(core), core.allocations,
            core.frees,
        ]
        mutex_unlock(self.lock)
        fragmentation = 1 - largest / free_bytes if free_bytes else 0.0
        return HeapStats(*[counts[i] for i in range(8)], fragmentation, free_bytes)

    def alloc(self, nbytes: int, alignment: int = 1) -> int:
        """Take a block.

        Parameters
        ----------
        nbytes : int
            Size in bytes; zero gives a block with an offset of its own.
        alignment : int, optional
            A power of two, if more is needed than the heap's.

        Returns
        -------
        int
            Its offset in bytes.

        Raises
        ------
        ArenaFullError
            No room; the message says how much is free.
        ValueError
            A negative size, or an alignment that is no power of two.
        """
        cdef HeapHandle handle
        cdef int64_t offset = 0
        cdef int64_t size = self.count(nbytes)
        if not 0 < alignment <= LARGEST:
            raise ValueError(f"heap {self.name!r}: alignment {alignment} is no power of two up to 2**61")
        cdef int64_t step = alignment
        mutex_lock(self.lock)
        handle = self.heap.alloc(size, step)
        if handle.node != 0:
            offset = self.heap.core.nodes[handle.node].offset
            self.heap.scope(handle)
            self.ring.add(EVENT_ALLOC, offset, size)
        mutex_unlock(self.lock)
        if handle.node == 0:
            raise self.refusal(heap_status(handle), nbytes, alignment)
        return offset

    def free(self, offset: int) -> None:
        """Give a block back.

        Raises
        ------
        Error
            No live block starts there: freed before, rewound, or never handed out.
        """
        cdef HeapHandle handle
        cdef int status = HEAP_BAD_ARGUMENT
        cdef int64_t start = offset if 0 <= offset < LARGEST else -1
        mutex_lock(self.lock)
        status = self.heap.find(start, &handle)
        if status == HEAP_OK:
            self.ring.add(EVENT_FREE, start, self.heap.core.nodes[handle.node].requested)
            self.heap.free(handle)
        mutex_unlock(self.lock)
        if status != HEAP_OK:
            raise self.foreign(offset)

    def size(self, offset: int) -> int:
        """Bytes that were asked for; `Error` as from `free`."""
        cdef HeapHandle handle
        cdef int64_t size = 0
        cdef int64_t start = offset if 0 <= offset < LARGEST else -1
        mutex_lock(self.lock)
        cdef int status = self.heap.find(start, &handle)
        if status == HEAP_OK:
            size = self.heap.core.nodes[handle.node].requested
        mutex_unlock(self.lock)
        if status != HEAP_OK:
            raise self.foreign(offset)
        return size

    def realloc(self, offset: int, nbytes: int) -> int:
        """Grow or shrink a block, without moving it where what follows is free.

        Returns
        -------
        int
            Its offset from now on. If that is another one, contents are the caller's to copy, before the next `alloc`:
            the old block is free already, but its bytes overlap the new one nowhere.

        Raises
        ------
        ArenaFullError
            No room; the block is as it was.
        Error
            As from `free`.
        ValueError
            A negative size.
        """
        cdef HeapHandle handle
        cdef HeapHandle moved
        cdef int64_t size = self.count(nbytes)
        cdef int64_t start = offset if 0 <= offset < LARGEST else -1
        mutex_lock(self.lock)
        cdef int found = self.heap.find(start, &handle)
        cdef int status = self.heap.resize(handle, size) if found == HEAP_OK else HEAP_OK
        if status == HEAP_FULL:
            moved = self.heap.alloc(size, 1)
            status = heap_status(moved)
            if status == HEAP_OK:
                self.heap.scope(moved)
                self.heap.free(handle)
                start = self.heap.core.nodes[moved.node].offset
        if found == HEAP_OK and status == HEAP_OK:
            self.ring.add(EVENT_RESIZE, start, size)
        mutex_unlock(self.lock)
        if found != HEAP_OK:
            raise self.foreign(offset)
        if status != HEAP_OK:
            raise self.refusal(status, nbytes, self.alignment)
        return start

    def mark(self) -> int:
        """A point to which `rewind` returns."""
        mutex_lock(self.lock)
        cdef int64_t mark = heap_mark(&self.heap.core)
        mutex_unlock(self.lock)
        return mark

    def rewind(self, mark: int) -> int:
        """Free every block made since a mark; gives their number.

        Raises
        ------
        ValueError
            Not a mark of this heap.
        """
        cdef int64_t freed = 0
        cdef int64_t until = mark if 0 <= mark < LARGEST else -1
        mutex_lock(self.lock)
        cdef int status = self.heap.rewind(until, &freed)
        self.ring.add(EVENT_REWIND, 0, freed)
        mutex_unlock(self.lock)
        if status != HEAP_OK:
            raise ValueError(f"{mark} is no mark of heap {self.name!r}")
        return freed

    def events(self) -> list[AllocationEvent]:
        """The last events, oldest first. Empty unless ``trace`` was given."""
        return list_events(self.lock, self.ring, 0)

    def snapshot(self) -> HeapSnapshot:
        """All ranges in address order, with the events that are kept; plain data."""
        return take_snapshot(self.lock, self.heap, self.ring, self.name, 0, 0)

    cdef int64_t count(self, nbytes) except? -1:
        if nbytes < 0:
            raise ValueError(f"heap {self.name!r}: a size of {nbytes} bytes is negative")
        return min(nbytes, LARGEST)

    cdef object foreign(self, offset):
        return Error(
            f"heap {self.name!r}: no live block starts at offset {offset}: it was freed or rewound before, or it is "
            "not from this heap"
        )

    cdef object refusal(self, int status, nbytes, alignment):
        if status == HEAP_BAD_ARGUMENT:
            return ValueError(f"heap {self.name!r}: alignment {alignment} is no power of two")
        if status != HEAP_FULL:
            return MemoryError()
        stats = self.stats
        return ArenaFullError(
            f"heap {self.name!r}: no room for {nbytes} bytes (alignment {alignment}): {self.capacity - stats.top} "
            f"bytes are free in one piece at the end and {stats.free_bytes} in {stats.free_ranges} pieces, "
            f"{stats.live} are in use; free blocks, or create the heap with a capacity larger than {self.capacity}"
        )
