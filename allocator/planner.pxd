from cpython.array cimport array
from libc.stdint cimport int32_t, int64_t, uint64_t

from .exact cimport ExactSearch
from .lifetimes cimport Key, Lifetimes
from .placement cimport Placement


# The n numbers as an array of type "q" or "i" with one more element at the end. ValueError, SizeOverflowError: they are
# not n numbers of that type; `name` says which of the caller's they are.
cdef array as_array(str code, str name, values, int n)


cdef class OffsetPlanner:
    cdef readonly int64_t alignment     # bytes, the default for every buffer
    cdef readonly int effort            # how much repair may cost, in units of about a microsecond for each buffer
    cdef readonly int64_t budget_ns     # ns from the start of a plan until exact search must end; 0: unlimited
    cdef readonly int64_t max_nodes     # and how much it may do
    cdef readonly bint exactly          # whether there is an exact search at all
    cdef readonly bint thorough         # whether bytes lost to alignment are searched for too
    cdef readonly int rules             # bit set of the rules that are tried
    cdef readonly int winner            # what won the last plan: a rule, -1: the given order, -2: exact search
    cdef readonly bint repaired         # whether that order was improved afterwards
    cdef Lifetimes lifetimes
    cdef Placement placement
    cdef ExactSearch exact              # made when it is first needed
    cdef int n_free                     # buffers that are not pinned; `best_order` lists them
    cdef int32_t* order                 # the one under trial
    cdef int32_t* best_order
    cdef int64_t* best_offsets
    cdef int64_t best_peak
    cdef const int64_t* pinned          # the caller's, during a plan; may be NULL
    cdef Key* keys
    cdef Key* spare
    cdef int capacity

    # Buffer i has sizes[i] >= 0 bytes and lives at positions first[i] <= p < last[i]. order (may be NULL) lists buffers
    # to place first, each once. Writes offsets[n], peak and lower_bound. ValueError for bad buffers, SizeOverflowError
    # if the sum of sizes does not fit. Not thread-safe: one planner for each thread.
    cdef int plan(self, int n, const int64_t* sizes, const int32_t* first, const int32_t* last, const int32_t* order,
                  int n_order, int64_t* offsets, int64_t* peak, int64_t* lower_bound) except -1 nogil
    # The same with pinned[i] >= 0 the offset that buffer i must have, and < 0 for the others.
    cdef int plan_pinned(self, int n, const int64_t* sizes, const int32_t* first, const int32_t* last,
                         const int32_t* order, int n_order, const int64_t* pinned, int64_t* offsets, int64_t* peak,
                         int64_t* lower_bound) except -1 nogil
    # Go on from the plan just made by exact search, until `target` is reached: True and a better plan of at most
    # `limit` bytes, or False and nothing is written.
    cdef bint plan_exactly(self, int64_t target, int64_t limit, int64_t max_nodes, int64_t* offsets,
                           int64_t* peak) except -1 nogil

    cdef int reserve(self, int n) noexcept nogil
    cdef int take_order(self, const int32_t* order, int n_order) except -1 nogil
    cdef void sort_by_rule(self, int rule, int start) noexcept nogil
    cdef int attempt(self, int64_t limit) noexcept nogil
    cdef int64_t unpadded(self, int n, int64_t target, int64_t lower_bound) noexcept nogil
    cdef void search(self, int64_t target) noexcept nogil
    cdef void list_free(self) noexcept nogil
    cdef void repair(self, int64_t target) noexcept nogil
    cdef int refine(self, int64_t target, int64_t max_nodes, int64_t deadline) except -1 nogil
    cdef void sort_by_offset(self) noexcept nogil
