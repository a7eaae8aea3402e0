from libc.stdint cimport int64_t


cdef enum EventKind:
    EVENT_ALLOC
    EVENT_FREE
    EVENT_RESIZE
    EVENT_REWIND
    EVENT_TRIM


cdef struct Event:
    int64_t time                # ns, CLOCK_MONOTONIC
    int64_t offset              # bytes
    int64_t nbytes
    int64_t cause               # index into EventRing.causes
    int kind


cdef class EventRing:
    cdef Event* events
    cdef int64_t capacity       # events that are kept; 0: nothing is recorded
    cdef int64_t recorded       # so far
    cdef int64_t cause          # of what happens next
    cdef list causes
    cdef dict numbers

    # The owner holds its mutex for these two; copy gives events for the caller to give to free(), oldest first, or -1.
    cdef void add(self, EventKind kind, int64_t offset, int64_t nbytes) noexcept nogil
    cdef int64_t copy(self, Event** events) noexcept nogil
    # And not for these, which make Python objects.
    cdef int64_t number_of(self, str cause) except -1
    cdef list to_list(self, const Event* events, int64_t count, int64_t distance)
