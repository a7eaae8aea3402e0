"""One range of address space for all memory of the models in a process.

Address space is reserved once, without memory behind it; pages become usable as the two regions grow and go back to the
system on `Arena.trim`. The base therefore never moves, and growth copies nothing. The activation region at the bottom
belongs to one running method at a time, so it costs the largest plan and not the sum of all; the heap above it holds
what outlives a run.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport EBUSY, errno
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memset

from .heap cimport HEAP_NO_METADATA, Heap, Range
from .mutex cimport mutex_delete, mutex_lock, mutex_new, mutex_trylock, mutex_unlock
from .pages cimport PAGE, new_region, reserve_pages, round_to_pages, unreserve_pages

import os
import weakref

from . import arena_errors
from .arena_stats import ArenaStats
from .errors import Error

__all__ = ["Arena", "Block", "Turn"]

cdef size_t LARGEST_RESERVE = <size_t>1 << 47

arenas = weakref.WeakSet()              # all of them, for fork


@cython.no_gc_clear                     # a block freed by the cycle collector still needs the heap
cdef class Arena:
    """Reserved address space with an activation region and a heap.

    Parameters
    ----------
    reserve : int, optional
        Bytes of address space, 64 GiB by default; rounded up to pages. Costs no memory.
    activation_reserve : int, optional
        Bytes of it that the activation region may grow to; half by default.
    name : str, optional
        Used in messages.

    Attributes
    ----------
    base : int
        Address of the activation region; never changes.
    reserve, activation_reserve : int
        As given, rounded up to pages.

    Raises
    ------
    ValueError
        A size that leaves no room for the two regions.
    ArenaFullError
        The system does not grant the address space.

    Notes
    -----
    Thread-safe. Behind the last usable byte of the activation region and of every heap block at least 64 more bytes
    can be read, because vectorised kernels read past the end of a tensor.
    """

    def __cinit__(self, reserve: int = 64 << 30, *, activation_reserve: int | None = None, name: str = "arena"):
        if activation_reserve is None:
            activation_reserve = reserve // 2
        if not 0 < activation_reserve < reserve <= LARGEST_RESERVE:
            raise arena_errors.no_room(name, reserve, activation_reserve, LARGEST_RESERVE)
        self.name = name
        self.activation_reserve = round_to_pages(activation_reserve) + PAGE
        self.reserve = self.activation_reserve + round_to_pages(reserve - activation_reserve) + PAGE
        self.lock = mutex_new()
        self.turn_lock = mutex_new()
        if self.lock is NULL or self.turn_lock is NULL:
            raise MemoryError()
        self.base_address = reserve_pages(self.reserve)
        if self.base_address is NULL:
            raise arena_errors.no_address_space(self, os.strerror(errno))
        cdef size_t heap_reserve = self.reserve - self.activation_reserve
        self.activations = new_region(self.base_address, self.activation_reserve)
        self.heap_pages = new_region(self.base_address + self.activation_reserve, heap_reserve)
        self.heap = Heap(heap_reserve - PAGE, <uintptr_t>self.heap_pages.start)
        arenas.add(self)

    def __dealloc__(self):
        if self.base_address is not NULL:
            unreserve_pages(self.base_address, self.reserve)
        mutex_delete(self.lock)
        mutex_delete(self.turn_lock)

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"base=0x{self.base:x}"
        return f"<Arena {self.name!r} {state} reserve={self.reserve}>"

    @property
    def base(self) -> int:
        """Address of the activation region."""
        return <uintptr_t>self.base_address

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.closed

    @property
    def stats(self) -> ArenaStats:
        """A consistent snapshot of what the arena holds."""
        mutex_lock(self.lock)           # whoever holds it never waits for the GIL
        cdef int64_t free_bytes = self.heap.free_bytes
        cdef int64_t largest = self.heap.largest_free()
        cdef int64_t[9] counts = [
            <int64_t>self.activations.committed, <int64_t>self.heap_pages.committed, self.heap.live, self.heap.peak,
            self.heap.top, self.heap.n_live, self.heap.n_free, self.heap.allocations, self.heap.frees,
        ]
        mutex_unlock(self.lock)
        return ArenaStats(*[counts[i] for i in range(9)], 1 - largest / free_bytes if free_bytes else 0.0)

    def ensure_activations(self, nbytes: int) -> None:
        """Make at least `nbytes` bytes from `base` usable; never shrinks.

        Raises
        ------
        ArenaFullError
            More than the activation region can grow to, or more than the system grants.
        """
        self.ensure_activations_nogil(self.count_bytes(nbytes))

    def alloc(self, nbytes: int, alignment: int = 64) -> Block:
        """Allocate a block on the heap.

        Parameters
        ----------
        nbytes : int
            Size in bytes; zero gives a block with an address of its own.
        alignment : int, optional
            A power of two; 64 bytes by default.

        Returns
        -------
        Block
            Freed when dropped.

        Raises
        ------
        ArenaFullError
            No room; the message says how much is free.
        ValueError
            A negative size, or an alignment that is no power of two.
        """
        cdef size_t size = self.count_bytes(nbytes)
        if not 0 < alignment < 1 << 62:
            raise ValueError(f"alignment {alignment} is no power of two that an arena can provide")
        cdef Block block = Block.__new__(Block)
        block.arena = self
        block.start = <char*>self.heap_alloc(size, alignment)
        block.length = size
        return block

    def turn(self) -> Turn:
        """Have the activation region to oneself: ``with arena.turn(): ...``; waits for a running method.

        Raises
        ------
        Error
            This thread has the turn already, or the arena is closed.
        """
        return Turn(self)

    def trim(self) -> None:
        """Give unused pages back to the system: the activation region, and whatever is free on the heap.

        Waits for a running method. Contents of the activation region are lost.
        """
        self.enter()
        try:
            with nogil:
                self.drop_pages()
        finally:
            self.leave()

    def scribble(self, byte: int = 0xFF) -> None:
        """Fill the usable activation region and every free part of the heap with garbage; for tests.

        Waits for a running method.
        """
        cdef int value = byte & 0xFF
        self.enter()
        try:
            with nogil:
                self.fill_unused(value)
        finally:
            self.leave()

    def close(self) -> None:
        """Refuse further use and return the address space; blocks still live stay valid until they are freed."""
        if self.closed:
            return
        self.enter()
        self.closed = True
        with nogil:
            self.drop_pages()
            mutex_lock(self.lock)
            self.unmap_if_unused()
            mutex_unlock(self.lock)
        self.leave()

    cdef size_t count_bytes(self, nbytes) except? 0:
        """A size given from Python."""
        if nbytes < 0:
            raise ValueError(f"arena {self.name!r}: a size of {nbytes} bytes is negative")
        if nbytes > LARGEST_RESERVE:
            raise arena_errors.too_large(self, nbytes)
        return nbytes

    cdef int ensure_activations_nogil(self, size_t nbytes) except -1 nogil:
        cdef bint granted
        if self.closed:
            raise_closed(self)
        if nbytes > self.activation_reserve - PAGE:
            raise_activations_full(self, nbytes)
        mutex_lock(self.lock)
        granted = self.activations.commit(nbytes)
        mutex_unlock(self.lock)
        if not granted:
            raise_refused(self, nbytes)
        return 0

    cdef void* heap_alloc(self, size_t nbytes, size_t alignment) except NULL nogil:
        cdef int64_t offset
        if self.closed:
            raise_closed(self)
        if alignment == 0 or alignment & (alignment - 1) != 0:
            raise_alignment(alignment)
        if nbytes > LARGEST_RESERVE or alignment > LARGEST_RESERVE:
            raise_heap_full(self, nbytes, alignment)
        mutex_lock(self.lock)
        offset = self.heap.alloc(nbytes, alignment)
        if offset >= 0 and not self.heap_pages.commit(self.heap.top):
            self.heap.free(self.heap.find(offset))
            mutex_unlock(self.lock)
            raise_refused(self, nbytes)
        mutex_unlock(self.lock)
        if offset == HEAP_NO_METADATA:
            with gil:
                raise MemoryError()
        if offset < 0:
            raise_heap_full(self, nbytes, alignment)
        return self.heap_pages.start + offset

    cdef int heap_free(self, void* address) except -1 nogil:
        cdef int32_t index
        mutex_lock(self.lock)
        index = self.find_block(address)
        if index >= 0:
            self.heap.free(index)
            if self.closed:
                self.unmap_if_unused()
        mutex_unlock(self.lock)
        if index < 0:
            raise_foreign(self, address)
        return 0

    cdef int heap_size(self, void* address, size_t* nbytes) except -1 nogil:
        cdef int32_t index
        mutex_lock(self.lock)
        index = self.find_block(address)
        if index >= 0:
            nbytes[0] = self.heap.ranges[index].requested
        mutex_unlock(self.lock)
        if index < 0:
            raise_foreign(self, address)
        return 0

    cdef int enter(self) except -1:
        cdef int status = mutex_trylock(self.turn_lock)
        if status == EBUSY:
            with nogil:
                status = mutex_lock(self.turn_lock)
        if status != 0:
            raise arena_errors.nested(self)
        if self.closed:
            mutex_unlock(self.turn_lock)
            raise_closed(self)
        return 0

    cdef void leave(self) noexcept:
        mutex_unlock(self.turn_lock)

    cdef int32_t find_block(self, void* address) noexcept nogil:
        """The live range that starts at an address, or -1. Lock held."""
        cdef char* start = self.heap_pages.start
        if self.base_address is NULL or <char*>address < start or <char*>address >= start + self.heap.top:
            return -1
        return self.heap.find(<char*>address - start)

    cdef void drop_pages(self) noexcept nogil:
        cdef int32_t index
        cdef Range* range
        mutex_lock(self.lock)
        self.activations.shrink(0)
        self.heap_pages.shrink(self.heap.top)
        index = self.heap.lowest
        while index >= 0:
            range = &self.heap.ranges[index]
            if range.requested < 0:
                self.heap_pages.renew(range.offset, range.offset + range.size)
            index = range.after
        mutex_unlock(self.lock)

    cdef void fill_unused(self, int byte) noexcept nogil:
        cdef int32_t index
        cdef Range* range
        cdef char* heap = self.heap_pages.start
        mutex_lock(self.lock)
        memset(self.base_address, byte, self.activations.committed)
        index = self.heap.lowest
        while index >= 0:
            range = &self.heap.ranges[index]
            if range.requested < 0:
                memset(heap + range.offset, byte, range.size)
            index = range.after
        memset(heap + self.heap.top, byte, self.heap_pages.committed - self.heap.top)
        mutex_unlock(self.lock)

    cdef void unmap_if_unused(self) noexcept nogil:
        """Return the address space of a closed arena once no block is left. Lock held."""
        if self.heap.n_live == 0 and self.base_address is not NULL:
            unreserve_pages(self.base_address, self.reserve)
            self.base_address = NULL


@cython.final
cdef class Turn:
    """Context manager made by `Arena.turn`."""

    def __cinit__(self, Arena arena):
        self.arena = arena

    def __enter__(self) -> Arena:
        self.arena.enter()
        return self.arena

    def __exit__(self, *_: object) -> None:
        self.arena.leave()


@cython.final
@cython.no_gc_clear                     # __dealloc__ needs the arena
cdef class Block:
    """Memory on the heap of an `Arena`, freed when the last reference is dropped.

    Supports the buffer protocol (writable bytes) and weak references. Made by `Arena.alloc` only.
    """

    def __init__(self):
        raise TypeError("blocks are made by Arena.alloc")

    def __dealloc__(self):
        if self.start is not NULL:
            self.arena.heap_free(self.start)

    def __repr__(self) -> str:
        state = "freed" if self.start is NULL else f"address=0x{<uintptr_t>self.start:x}"
        return f"<Block {state} nbytes={self.length}>"

    def __len__(self) -> int:
        return self.length

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.start is NULL:
            raise BufferError("this block was freed")
        PyBuffer_FillInfo(buffer, self, self.start, self.length, 0, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1

    @property
    def address(self) -> int:
        """Address of the first byte.

        Raises
        ------
        Error
            The block was freed.
        """
        if self.start is NULL:
            raise Error("this block was freed")
        return <uintptr_t>self.start

    @property
    def nbytes(self) -> int:
        """Bytes that were asked for."""
        return self.length

    @property
    def is_freed(self) -> bool:
        """Whether `free` was called."""
        return self.start is NULL

    def free(self) -> None:
        """Give the memory back now.

        Raises
        ------
        BufferError
            A memoryview or array still uses it.
        Error
            The block was freed before.
        """
        if self.exports:
            raise BufferError(f"{self.exports} memoryviews or arrays still use this block of {self.length} bytes")
        if self.start is NULL:
            raise Error("this block was freed before")
        cdef char* start = self.start
        self.start = NULL
        self.arena.heap_free(start)


cdef int raise_closed(Arena arena) except -1 with gil:
    raise Error(f"arena {arena.name!r} is closed")


cdef int raise_alignment(size_t alignment) except -1 with gil:
    raise ValueError(f"alignment {alignment} is no power of two")


cdef int raise_activations_full(Arena arena, size_t nbytes) except -1 with gil:
    raise arena_errors.activations_full(arena, nbytes, arena.activation_reserve - PAGE)


cdef int raise_heap_full(Arena arena, size_t nbytes, size_t alignment) except -1 with gil:
    raise arena_errors.heap_full(arena, nbytes, alignment, arena.heap.limit, arena.heap.free_bytes)


cdef int raise_refused(Arena arena, size_t nbytes) except -1 with gil:
    raise arena_errors.refused(arena, nbytes)


cdef int raise_foreign(Arena arena, void* address) except -1 with gil:
    raise arena_errors.foreign(arena, <uintptr_t>address)
