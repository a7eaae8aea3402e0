"""The memory of an arena, for callers without the GIL: two regions of one reserved range, the heap, and the locks."""

cimport cython
from libc.errno cimport EBUSY, errno
from libc.stdint cimport int64_t, uint32_t, uintptr_t
from libc.string cimport memset

from .events cimport EVENT_ALLOC, EVENT_FREE, EVENT_RESIZE, EVENT_TRIM, EventRing
from .heap cimport Heap
from .heap_core cimport (
    ETARENA_DEBUG, HEAP_ENDS, HEAP_FREE, HEAP_NO_METADATA, HEAP_NOT_LIVE, HEAP_OK, HeapHandle, HeapNode,
    heap_free_bytes, heap_is_live, heap_n_live, heap_status,
)
from .mutex cimport mutex_delete, mutex_lock, mutex_new, mutex_trylock, mutex_unlock
from .pages cimport (
    PAGE, ask_for_huge_pages, guard_page, new_region, release_pages, reserve_pages, round_to_pages, unreserve_pages,
)
from .poison cimport POISON, first_change

import os
import weakref

from . import arena_errors
from .errors import Error

__all__ = ["DEBUG", "ArenaCore", "arena_at"]

DEBUG = bool(ETARENA_DEBUG)              # whether this is a debug build

cdef extern from *:                     # Cython's: what is rare lies behind the rest of a function
    bint unlikely(bint condition) noexcept nogil

cdef size_t HUGE_PAGE = 2 << 20
cdef int64_t SLACK = 64                 # readable bytes behind every block
cdef int64_t SIZE_MASK = (<int64_t>1 << 48) - 1

cdef enum:
    LEAD_SHIFT = 48                     # HeapNode.tag: bytes asked for, and above them the block's place in its range

cdef enum Refusal:                      # beside those of heap_core.h
    NOT_GRANTED = -100
    OVERWRITTEN = -101

arenas = weakref.WeakSet()              # all of them, for `arena_at`


@cython.no_gc_clear                     # a block freed by the cycle collector still needs the heap
cdef class ArenaCore:
    """What `Arena` inherits; see there for the parameters."""

    def __cinit__(
        self, reserve: int = 64 << 30, *, activation_reserve: int | None = None, name: str = "arena",
        huge_pages: bool = False, poison: bool | None = None, guard: bool = False, trace: int = 0,
    ):
        if activation_reserve is None:
            activation_reserve = reserve // 2
        if not 0 < activation_reserve < reserve <= LARGEST_RESERVE:
            raise arena_errors.no_room(name, reserve, activation_reserve, LARGEST_RESERVE)
        self.name, self.guard, self.page = name, guard, PAGE
        self.poison = ETARENA_DEBUG if poison is None else poison
        self.is_plain = not (self.poison or self.guard)
        self.ring = EventRing(trace)
        self.activation_reserve = round_to_pages(activation_reserve) + PAGE
        if huge_pages:
            self.activation_reserve = (self.activation_reserve + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
        self.reserve = self.activation_reserve + round_to_pages(reserve - activation_reserve) + PAGE
        self.lock = mutex_new(True)
        self.turn_lock = mutex_new(False)
        if self.lock is NULL or self.turn_lock is NULL:
            raise MemoryError()
        self.base_address = reserve_pages(self.reserve)
        if self.base_address is NULL:
            raise arena_errors.no_address_space(self, os.strerror(errno))
        self.huge_pages = huge_pages and ask_for_huge_pages(self.base_address, self.reserve)
        cdef size_t heap_reserve = self.reserve - self.activation_reserve
        self.activations = new_region(self.base_address, self.activation_reserve)
        self.heap_pages = new_region(self.base_address + self.activation_reserve, heap_reserve)
        self.heap = Heap(heap_reserve - PAGE, <uintptr_t>self.heap_pages.start)
        if not (self.huge_pages or self.poison or guard):
            self.heap.release_with(release_pages, self.heap_pages.start)
        arenas.add(self)

    def __dealloc__(self):
        if self.base_address is not NULL:
            unreserve_pages(self.base_address, self.reserve)
        mutex_delete(self.lock)
        mutex_delete(self.turn_lock)

    cdef size_t count_bytes(self, nbytes) except? 0:
        """A size given from Python."""
        if nbytes < 0:
            raise ValueError(f"arena {self.name!r}: a size of {nbytes} bytes is negative")
        if nbytes > LARGEST_RESERVE:
            raise arena_errors.too_large(self, nbytes)
        return nbytes

    cdef int ensure_activations_nogil(self, size_t nbytes) except -1 nogil:
        cdef bint granted
        if unlikely(self.closed):
            raise_closed(self)
        if unlikely(nbytes > self.activation_reserve - self.page):
            raise_activations_full(self, nbytes)
        mutex_lock(self.lock)
        granted = True
        if unlikely(nbytes + self.page > self.activations.committed):
            granted = self.activations.commit(nbytes)
        mutex_unlock(self.lock)
        if unlikely(not granted):
            raise_refused(self, nbytes)
        return 0

    cdef int heap_free(self, void* address) except -1 nogil:
        cdef HeapHandle handle
        cdef int status
        mutex_lock(self.lock)
        status = self.find_block(address, &handle)
        if status == HEAP_OK:
            self.free_block(handle)
        mutex_unlock(self.lock)
        if status != HEAP_OK:
            raise_foreign(self, address)
        return 0

    cdef int heap_size(self, void* address, size_t* nbytes) except -1 nogil:
        cdef HeapHandle handle
        cdef int status
        mutex_lock(self.lock)
        status = self.find_block(address, &handle)
        if status == HEAP_OK:
            nbytes[0] = self.heap.core.nodes[handle.node].tag & SIZE_MASK
        mutex_unlock(self.lock)
        if status != HEAP_OK:
            raise_foreign(self, address)
        return 0

    cdef char* allocate(self, size_t nbytes, size_t alignment, bint scoped, HeapHandle* handle) except NULL nogil:
        cdef int status
        cdef char* address = NULL
        cdef HeapNode* node
        if unlikely(self.closed or alignment - 1 >= LARGEST_RESERVE or nbytes > LARGEST_RESERVE):
            raise_argument(self, nbytes, alignment)
        if unlikely(alignment & (alignment - 1) != 0):
            raise_argument(self, nbytes, alignment)
        mutex_lock(self.lock)
        if unlikely(not self.is_plain):
            status = self.allocate_checked(nbytes, alignment, handle, &address)
        else:
            handle[0] = self.heap.alloc(nbytes, alignment)
            status = heap_status(handle[0])
            if not unlikely(status != HEAP_OK):
                node = &self.heap.core.nodes[handle.node]
                node.tag = nbytes
                address = self.heap_pages.start + node.offset
                if unlikely(self.heap.core.top + <int64_t>self.page > <int64_t>self.heap_pages.committed):
                    status = self.prepare(handle[0])
        if unlikely(status != HEAP_OK):
            mutex_unlock(self.lock)
            raise_refusal(self, status, nbytes, alignment)
        if unlikely(scoped):
            self.heap.scope(handle[0])
        if unlikely(self.ring.capacity != 0):
            self.ring.add(EVENT_ALLOC, address - self.heap_pages.start, nbytes)
        mutex_unlock(self.lock)
        return address

    cdef int allocate_checked(
        self, size_t nbytes, size_t alignment, HeapHandle* handle, char** address
    ) noexcept nogil:
        """A block with poison or a guard, which has its slack and a page behind it."""
        cdef int status
        if self.guard:
            handle[0] = self.heap.alloc(round_to_pages(nbytes + SLACK) + PAGE, max(alignment, PAGE))
        else:
            handle[0] = self.heap.alloc(nbytes, alignment)
        status = heap_status(handle[0])
        if status == HEAP_OK:
            self.heap.core.nodes[handle.node].tag = nbytes | self.lead_of(nbytes, alignment) << LEAD_SHIFT
            address[0] = self.address_of(handle[0])
            status = self.prepare(handle[0])
        return status

    cdef int release(self, HeapHandle handle) except -1 nogil:
        cdef int status
        mutex_lock(self.lock)
        status = self.free_block(handle)
        mutex_unlock(self.lock)
        if status != HEAP_OK:
            raise_rewound(self)
        return 0

    cdef bint resize_in_place(self, HeapHandle handle, size_t nbytes) noexcept nogil:
        cdef bint done = False
        if self.closed or self.poison or self.guard or nbytes > LARGEST_RESERVE:
            return False
        mutex_lock(self.lock)
        cdef int64_t former = self.heap.core.nodes[handle.node].tag
        if self.heap.resize(handle, nbytes) == HEAP_OK:
            done = self.heap_pages.commit(self.heap.core.top)
            if done:
                self.heap.core.nodes[handle.node].tag = nbytes
                self.ring.add(EVENT_RESIZE, self.heap.core.nodes[handle.node].offset, nbytes)
            else:
                self.heap.resize(handle, former)
        mutex_unlock(self.lock)
        return done

    cdef bint pin(self, HeapHandle handle, int change) noexcept nogil:
        mutex_lock(self.lock)
        cdef bint live = heap_is_live(&self.heap.core, handle)
        if live:
            self.heap.core.nodes[handle.node].pins = <uint32_t>(<int>self.heap.core.nodes[handle.node].pins + change)
        mutex_unlock(self.lock)
        return live

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

    cdef int64_t lead_of(self, int64_t nbytes, int64_t alignment) noexcept nogil:
        """With guards, a block and its slack end as close to the guard page as the alignment allows."""
        cdef int64_t step = max(alignment, SLACK)
        if not self.guard or step > <int64_t>PAGE:
            return 0
        return (<int64_t>round_to_pages(nbytes + SLACK) - nbytes - SLACK) // step * step

    cdef char* address_of(self, HeapHandle handle) noexcept nogil:
        cdef HeapNode* node = &self.heap.core.nodes[handle.node]
        return self.heap_pages.start + node.offset + (node.tag >> LEAD_SHIFT)

    cdef int find_block(self, void* address, HeapHandle* handle) noexcept nogil:
        """The live range that starts at an address."""
        cdef char* start = self.heap_pages.start
        cdef int64_t offset
        if self.base_address is NULL or <char*>address < start or <char*>address >= start + self.heap.core.top:
            return HEAP_NOT_LIVE
        offset = <char*>address - start
        if self.guard:
            offset -= offset % <int64_t>PAGE
        if self.heap.find(offset, handle) != HEAP_OK or self.address_of(handle[0]) != address:
            return HEAP_NOT_LIVE
        return HEAP_OK

    cdef int prepare(self, HeapHandle handle) noexcept nogil:
        """Make the memory of a new block usable; if that fails, the block is gone."""
        cdef int status = HEAP_OK
        cdef HeapNode* node = &self.heap.core.nodes[handle.node]
        cdef char* start = self.heap_pages.start + node.offset
        if not self.heap_pages.commit(self.heap.core.top):
            status = NOT_GRANTED
        elif self.poison:
            self.poison_fresh()
            if first_change(start, node.size) >= 0:
                memset(start, POISON, node.size)
                status = OVERWRITTEN
        if status == HEAP_OK and self.guard and not guard_page(start + node.size - PAGE, True):
            status = NOT_GRANTED
        if status != HEAP_OK:
            self.heap.free(handle)
        return status

    cdef int free_block(self, HeapHandle handle) noexcept nogil:
        cdef HeapNode* node
        cdef char* start
        if not heap_is_live(&self.heap.core, handle):
            return HEAP_NOT_LIVE
        node = &self.heap.core.nodes[handle.node]
        start = self.heap_pages.start + node.offset
        self.ring.add(EVENT_FREE, self.address_of(handle) - self.heap_pages.start, node.tag & SIZE_MASK)
        if self.guard:
            guard_page(start + node.size - PAGE, False)
        if self.poison:
            memset(start, POISON, node.size)
        self.heap.free(handle)
        if self.closed:
            self.unmap_if_unused()
        return HEAP_OK

    cdef int64_t rewind_to(self, int64_t mark) noexcept nogil:
        """Free what was made since; a negative status if something is in use."""
        cdef int64_t freed = 0
        cdef HeapHandle handle
        cdef int status = self.heap.can_rewind(mark)
        if status != HEAP_OK:
            return status
        handle = self.heap.youngest_since(mark)
        while handle.node != 0:
            self.free_block(handle)
            freed += 1
            handle = self.heap.youngest_since(mark)
        return freed

    cdef void poison_fresh(self) noexcept nogil:
        """Poison memory that is handed out for the first time."""
        cdef int64_t top = self.heap.core.top
        if top > self.poisoned:
            memset(self.heap_pages.start + self.poisoned, POISON, top - self.poisoned)
            self.poisoned = top

    cdef void drop_pages(self) noexcept nogil:
        mutex_lock(self.lock)
        self.activations.shrink(0)
        self.heap.settle()
        self.heap.release_all()
        self.heap_pages.shrink(self.heap.core.top)
        self.poisoned = min(self.poisoned, self.heap.core.top)
        self.ring.add(EVENT_TRIM, 0, 0)
        mutex_unlock(self.lock)

    cdef void fill_unused(self, int byte) noexcept nogil:
        cdef int64_t index
        cdef HeapNode* node
        cdef char* heap = self.heap_pages.start
        mutex_lock(self.lock)
        memset(self.base_address, byte, self.activations.committed)
        if not self.poison:
            self.heap.settle()
            index = self.heap.core.nodes[HEAP_ENDS].after
            while index != HEAP_ENDS:
                node = &self.heap.core.nodes[index]
                if node.requested == HEAP_FREE:
                    memset(heap + node.offset, byte, node.size)
                index = node.after
            memset(heap + self.heap.core.top, byte, self.heap_pages.committed - self.heap.core.top)
        mutex_unlock(self.lock)

    cdef void unmap_if_unused(self) noexcept nogil:
        """Return the address space of a closed arena once no block is left."""
        if heap_n_live(&self.heap.core) == 0 and self.base_address is not NULL:
            unreserve_pages(self.base_address, self.reserve)
            self.base_address = NULL


cdef int raise_closed(ArenaCore arena) except -1 with gil:
    raise Error(f"arena {arena.name!r} is closed")


cdef int raise_argument(ArenaCore arena, size_t nbytes, size_t alignment) except -1 with gil:
    if arena.closed:
        raise_closed(arena)
    if alignment == 0 or alignment & (alignment - 1) != 0:
        raise ValueError(f"alignment {alignment} is no power of two")
    raise_heap_full(arena, nbytes, alignment)


cdef int raise_activations_full(ArenaCore arena, size_t nbytes) except -1 with gil:
    raise arena_errors.activations_full(arena, nbytes, arena.activation_reserve - PAGE)


cdef int raise_heap_full(ArenaCore arena, size_t nbytes, size_t alignment) except -1 with gil:
    core = &arena.heap.core
    raise arena_errors.heap_full(arena, nbytes, alignment, core.limit, heap_free_bytes(core))


cdef int raise_refused(ArenaCore arena, size_t nbytes) except -1 with gil:
    raise arena_errors.refused(arena, nbytes)


cdef int raise_refusal(ArenaCore arena, int status, size_t nbytes, size_t alignment) except -1 with gil:
    if status == HEAP_NO_METADATA:
        raise MemoryError()
    if status == NOT_GRANTED:
        raise arena_errors.refused(arena, nbytes)
    if status == OVERWRITTEN:
        raise arena_errors.overwritten(arena, nbytes)
    raise_heap_full(arena, nbytes, alignment)


cdef int raise_foreign(ArenaCore arena, void* address) except -1 with gil:
    raise arena_errors.foreign(arena, <uintptr_t>address)


cdef int raise_rewound(ArenaCore arena) except -1 with gil:
    raise arena_errors.rewound(arena)


def arena_at(uintptr_t address) -> ArenaCore | None:
    """The open arena in whose address space an address is; None if there is none."""
    cdef ArenaCore arena
    for arena in list(arenas):
        if not arena.closed and 0 <= <int64_t> (address - <uintptr_t> arena.base_address) < <int64_t> arena.reserve:
            return arena
    return None
