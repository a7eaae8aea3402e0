from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc


cdef inline int grow(void** memory, size_t nbytes) noexcept nogil:
    """Make an array larger: 0, or -1 if there is no memory and it stays as it is."""
    cdef void* grown = realloc(memory[0], nbytes)
    if grown is NULL:
        return -1
    memory[0] = grown
    return 0


cdef struct Key:                        # sorted by larger primary, then larger secondary, then as they were
    double primary
    double secondary
    int32_t index


cdef void sort_keys(Key* keys, Key* spare, int n) noexcept nogil
cdef int raise_memory() except -1 nogil


cdef class Lifetimes:
    cdef int n
    cdef int64_t version                # counts what was learned
    cdef int32_t* first                 # buffer i lives at positions first[i] <= p < last[i]
    cdef int32_t* last
    cdef int32_t* by_first              # buffers in order of their first position
    cdef int32_t* by_last               # and of their last
    cdef int32_t* starts_before         # how many buffers start before buffer i starts,
    cdef int32_t* starts_until          # how many before it ends,
    cdef int32_t* ends_before           # and how many have ended when it starts
    cdef bint listed                    # whether there are few enough overlaps to list them:
    cdef int64_t* edge_start            # those of i are edges[edge_start[i]:edge_start[i + 1]]
    cdef int32_t* edges

    cdef int64_t* profile               # live bytes when the k-th buffer of by_first starts
    cdef int64_t* height                # the largest of these within the lifetime of buffer i
    cdef int64_t* conflict              # bytes of all other buffers whose lifetime overlaps that of buffer i

    cdef int capacity
    cdef int64_t edge_capacity
    cdef int32_t* scratch
    cdef Key* keys
    cdef Key* spare

    # Learn n lifetimes; does nothing if they are those of the last call. ValueError unless first[i] < last[i].
    cdef int learn(self, int n, const int32_t* first, const int32_t* last) except -1 nogil
    # Fill profile; give the largest sum of live sizes, and the same with sizes rounded up to steps.
    cdef void bound(self, const int64_t* sizes, const int64_t* steps, int64_t* lower_bound,
                    int64_t* rounded_bound) noexcept nogil
    # The same, and fill height and conflict.
    cdef void measure(self, const int64_t* sizes, const int64_t* steps, int64_t* lower_bound,
                      int64_t* rounded_bound) noexcept nogil
    cdef int64_t degree(self, int32_t i) noexcept nogil

    cdef int reserve(self, int n) noexcept nogil
    cdef void sort_positions(self) noexcept nogil
    cdef void rank(self) noexcept nogil
    cdef int list_overlaps(self) noexcept nogil
    cdef void measure_conflicts(self, const int64_t* sizes) noexcept nogil
