from libc.stdint cimport int64_t

from .events cimport EventRing
from .heap cimport Heap

# Take the mutex, copy, and make Python objects only after giving it back: making them can run the cycle collector,
# which may drop a block and need the mutex. Offsets of events are moved by a distance.
cdef list list_events(void* lock, EventRing ring, int64_t distance)
cdef object take_snapshot(void* lock, Heap heap, EventRing ring, str name, size_t start, int64_t distance)
