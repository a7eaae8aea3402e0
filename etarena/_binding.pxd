"""From input shapes to a bound plan: symbols, sizes, bytes, offsets."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from etarena.allocator.planner cimport OffsetPlanner
from etarena.allocator.sizes cimport SizeProgram


cdef class BoundShape:
    """Everything that depends on the input shapes alone; sizes and places never change once made."""

    cdef vector[int32_t] sizes          # dimensions of all values, one value after another
    cdef vector[int64_t] nbytes         # of each value
    cdef vector[int64_t] offsets        # of each planned buffer, in the order of ShapeBinder.planned
    cdef vector[int64_t] grown          # bytes that each growing state needs room for
    cdef readonly int64_t peak          # bytes of the activation region
    cdef readonly int64_t lower_bound
    cdef readonly int64_t output_bytes
    cdef readonly int64_t plan_ns
    cdef object search                  # AnytimePlanner that looks for a lower peak; None before it is wanted
    cdef size_t footprint(self) noexcept


cdef class ShapeBinder:
    cdef readonly object section        # the decoded plan section
    cdef SizeProgram program
    cdef OffsetPlanner planner
    cdef vector[int32_t] rank           # of each value
    cdef vector[int32_t] start          # of each value: where its dimensions begin in the flat lists
    cdef vector[int32_t] registers      # flat: the size of each dimension of each value
    cdef vector[int32_t] item_bytes
    cdef vector[int32_t] storage        # position of the value that owns the memory
    cdef vector[int32_t] kind
    cdef vector[int32_t] dtypes
    cdef vector[uint8_t] dim_orders     # flat
    cdef vector[int32_t] input_values   # of each input: its position among the values; -1 when it is no tensor
    cdef vector[int32_t] planned        # owners in the activation region
    cdef vector[int32_t] first          # of each planned buffer
    cdef vector[int32_t] last
    cdef vector[int32_t] preferred      # order to try first: positions within planned
    cdef vector[int32_t] key_start      # of each input: where its sizes begin in the key; -1 when it has none
    cdef readonly int key_length
    cdef vector[int32_t] growing        # positions in section.states of those that grow
    cdef vector[int32_t] grows          # of each value: which of these it is the memory of; -1 for all others
    cdef int state_start                # where their lengths begin in the key
    cdef vector[int64_t] last_sizes     # bytes of the planned buffers of the last plan, and that plan
    cdef BoundShape last_plan

    cdef BoundShape bind(self, const int64_t* key)
    cdef int check_inputs(self, const int64_t* key, const int64_t* registers) except -1
    cdef int find_symbols(self, const int64_t* key, int64_t* symbols) except -1
    cdef int find_lengths(self, const int64_t* key, int64_t* symbols) except -1
    cdef int check_lengths(self, const int64_t* key, const int64_t* registers) except -1
    cdef int measure(self, BoundShape bound, const int64_t* registers) except -1
    cdef int place(self, BoundShape bound) except -1
    cdef BoundShape improved(self, BoundShape bound)
    cdef object sizes_text(self, const int64_t* registers)
    cdef object too_large(self, int position, const int64_t* registers)
