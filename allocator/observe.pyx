"""What a heap looks like and what happened in it, as plain Python data."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free as c_free

from .events cimport Event, EventRing
from .heap cimport Heap
from .mutex cimport mutex_lock, mutex_unlock

from .trace import HeapSnapshot

__all__ = []


cdef list list_events(void* lock, EventRing ring, int64_t distance):
    cdef Event* events
    mutex_lock(lock)
    cdef int64_t count = ring.copy(&events)
    mutex_unlock(lock)
    if count < 0:
        raise MemoryError()
    try:
        return ring.to_list(events, count, distance)
    finally:
        c_free(events)


cdef object take_snapshot(void* lock, Heap heap, EventRing ring, str name, size_t start, int64_t distance):
    cdef int64_t* numbers
    mutex_lock(lock)
    cdef int64_t count = heap.copy_ranges(&numbers)
    mutex_unlock(lock)
    if count < 0:
        raise MemoryError()
    try:
        ranges = [(numbers[3 * i], numbers[3 * i + 1], max(-1, numbers[3 * i + 2])) for i in range(count)]
    finally:
        c_free(numbers)
    return HeapSnapshot.of(name, start, ranges, list_events(lock, ring, distance))
