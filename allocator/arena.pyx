"""One range of address space for all memory of the models in a process.

Address space is reserved once, without memory behind it; pages become usable as the two regions grow and go back to the
system on `Arena.trim`. The base therefore never moves, and growth copies nothing. The activation region at the bottom
belongs to one running method at a time, so it costs the largest plan and not the sum of all; the heap above it holds
what outlives a run.
"""

cimport cython
from libc.stdint cimport int64_t, uintptr_t

from .arena_core cimport LARGEST_RESERVE, ArenaCore
from .block cimport new_block
from .heap_core cimport HEAP_PINNED, HeapCore, heap_free_bytes, heap_mark, heap_n_free, heap_n_live
from .mutex cimport mutex_lock, mutex_unlock
from .observe cimport list_events, take_snapshot

from . import arena_errors
from .arena_stats import ArenaStats
from .block import Block
from .trace import AllocationEvent, HeapSnapshot

__all__ = ["Arena", "Block", "Cause", "Turn"]


@cython.no_gc_clear                     # a block freed by the cycle collector still needs the heap
cdef class Arena(ArenaCore):
    """Reserved address space with an activation region and a heap.

    Parameters
    ----------
    reserve : int, optional
        Bytes of address space, 64 GiB by default; rounded up to pages. Costs no memory.
    activation_reserve : int, optional
        Bytes of it that the activation region may grow to; half by default.
    name : str, optional
        Used in messages.
    huge_pages : bool, optional
        Ask the system for huge pages (transparent ones, on Linux); the attribute says whether it agreed.
    poison : bool, optional
        Fill freed heap memory with 0xDD and check it when it is handed out again: finds writes after a free. On in
        debug builds.
    guard : bool, optional
        A page without access behind every heap block and its slack, so that writes far past the end crash. Costs pages.
    trace : int, optional
        How many of the last events on the heap to keep for `events`; none by default.

    Attributes
    ----------
    base : int
        Address of the activation region; never changes.
    reserve, activation_reserve : int
        As given, rounded up to pages.
    huge_pages, poison, guard : bool
        What is in force.

    Raises
    ------
    ValueError
        A size that leaves no room for the two regions.
    ArenaFullError
        The system does not grant the address space.

    Notes
    -----
    Thread-safe. Memory behind free heap ranges is given back to the system as soon as more than 17/16 of the largest
    sum of live bytes ever would be kept, unless there are huge pages, poison or guards. Behind the last
    usable byte of the activation region and of every heap block at least 64 more bytes can be read, because vectorised
    kernels read past the end of a tensor.
    """

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
    def activation_committed(self) -> int:
        """Usable bytes of the activation region, from `base` on."""
        return self.activations.committed

    @property
    def stats(self) -> ArenaStats:
        """A consistent snapshot of what the arena holds."""
        cdef HeapCore* core = &self.heap.core
        mutex_lock(self.lock)           # whoever holds it never waits for the GIL
        self.heap.settle()
        cdef int64_t free_bytes = heap_free_bytes(core)
        cdef int64_t largest = self.heap.largest_free()
        cdef int64_t[11] counts = [
            <int64_t>self.activations.committed, <int64_t>self.heap_pages.committed, core.live, core.peak,
            core.top, heap_n_live(core), heap_n_free(core), core.allocations, core.frees, core.backed, core.peak_backed,
        ]
        mutex_unlock(self.lock)
        fragmentation = 1 - largest / free_bytes if free_bytes else 0.0
        return ArenaStats(*[counts[i] for i in range(9)], fragmentation, counts[9], counts[10])

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
        return new_block(self, size, alignment)

    def mark(self) -> int:
        """A point in the life of the heap to which `rewind` returns."""
        mutex_lock(self.lock)
        cdef int64_t mark = heap_mark(&self.heap.core)
        mutex_unlock(self.lock)
        return mark

    def rewind(self, mark: int) -> int:
        """Free every block that `alloc` made since a mark, whichever thread made it.

        Parameters
        ----------
        mark : int
            From `mark`.

        Returns
        -------
        int
            Number of blocks freed. Their objects raise `Error` from now on.

        Raises
        ------
        BufferError
            A memoryview or array still uses one of the blocks; nothing has been freed.
        ValueError
            Not a mark of this arena.
        """
        if not 0 <= mark <= LARGEST_RESERVE:
            raise ValueError(f"{mark} is no mark of arena {self.name!r}")
        mutex_lock(self.lock)
        cdef int64_t freed = self.rewind_to(mark)
        mutex_unlock(self.lock)
        if freed == HEAP_PINNED:
            raise arena_errors.pinned(self)
        if freed < 0:
            raise ValueError(f"{mark} is no mark of arena {self.name!r}")
        return freed

    def cause(self, name: str) -> Cause:
        """Name what happens on the heap, in traces: ``with arena.cause("decode"): ...``; for the whole arena."""
        return Cause(self, name)

    def events(self) -> list[AllocationEvent]:
        """The last events on the heap, oldest first; offsets count from `base`. Empty unless ``trace`` was given."""
        return list_events(self.lock, self.ring, self.activation_reserve)

    def snapshot(self) -> HeapSnapshot:
        """All ranges of the heap in address order, with the events that are kept; plain data."""
        cdef size_t start = self.activation_reserve
        return take_snapshot(self.lock, self.heap, self.ring, self.name, self.base + start, start)

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
cdef class Cause:
    """Context manager made by `Arena.cause`."""

    def __cinit__(self, Arena arena, str name):
        self.arena, self.name, self.former = arena, name, []

    def __enter__(self) -> None:
        cdef int64_t number = self.arena.ring.number_of(self.name)
        self.former.append(self.arena.ring.cause)
        mutex_lock(self.arena.lock)
        self.arena.ring.cause = number
        mutex_unlock(self.arena.lock)

    def __exit__(self, *_: object) -> None:
        cdef int64_t number = self.former.pop()
        mutex_lock(self.arena.lock)
        self.arena.ring.cause = number
        mutex_unlock(self.arena.lock)
