"""What happened in a heap lately: the last events, each with its time and the cause its owner named."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc
from libc.stdlib cimport free as c_free
from libc.stdlib cimport malloc

from .trace import AllocationEvent

__all__ = ["EventRing"]

cdef extern from * nogil:
    """
    #include <time.h>
    static inline int64_t now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    """
    int64_t now_ns() noexcept

KINDS = {EVENT_ALLOC: "alloc", EVENT_FREE: "free", EVENT_RESIZE: "resize", EVENT_REWIND: "rewind", EVENT_TRIM: "trim"}


cdef class EventRing:
    """The last `capacity` events.

    Parameters
    ----------
    capacity : int
        Events to keep, 40 bytes each; 0 records nothing.
    """

    def __cinit__(self, capacity: int):
        if not 0 <= capacity <= 1 << 30:
            raise ValueError(f"trace={capacity} is no number of events between 0 and {1 << 30}")
        self.capacity = capacity
        self.causes = [""]
        self.numbers = {"": 0}
        if capacity > 0:
            self.events = <Event*>calloc(capacity, sizeof(Event))
            if self.events is NULL:
                raise MemoryError()

    def __dealloc__(self):
        c_free(self.events)

    cdef void add(self, EventKind kind, int64_t offset, int64_t nbytes) noexcept nogil:
        if self.capacity == 0:
            return
        self.events[self.recorded % self.capacity] = Event(now_ns(), offset, nbytes, self.cause, kind)
        self.recorded += 1

    cdef int64_t copy(self, Event** events) noexcept nogil:
        cdef int64_t count = min(self.recorded, self.capacity)
        cdef int64_t i
        events[0] = <Event*>malloc((count + 1) * sizeof(Event))
        if events[0] is NULL:
            return -1
        for i in range(count):
            events[0][i] = self.events[(self.recorded - count + i) % self.capacity]
        return count

    cdef int64_t number_of(self, str cause) except -1:
        number = self.numbers.get(cause)
        if number is None:
            number = self.numbers[cause] = len(self.causes)
            self.causes.append(cause)
        return number

    cdef list to_list(self, const Event* events, int64_t count, int64_t distance):
        return [
            AllocationEvent(
                events[i].time, KINDS[events[i].kind], events[i].offset + distance, events[i].nbytes,
                self.causes[events[i].cause],
            )
            for i in range(count)
        ]
