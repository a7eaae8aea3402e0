"""From input shapes to a bound plan: symbols, sizes, bytes, offsets."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from etarena._equations cimport Equations
from etarena._scratch cimport DelegateScratch
from etarena.allocator.oriented cimport OrientedPlanner
from etarena.allocator.planner cimport OffsetPlanner
from etarena.allocator.sizes cimport SizeProgram


cdef extern from "value_sizes.h" namespace "etarena" nogil:
    cppclass ValueShape:
        ValueShape()
        ValueShape(uint8_t rank, uint8_t item_bytes)
        uint8_t rank
        uint8_t item_bytes


cdef struct Move:
    int64_t source                      # offset; with `saved`, in the buffer for what waits
    int64_t target
    int64_t nbytes
    int32_t role                        # MOVE, or SAVE (from its place to the side) and RESTORE


cdef int64_t now_ns() noexcept nogil

cdef enum:                              # Move.role
    MOVE = 0
    SAVE = 1
    RESTORE = 2

cdef enum:                              # BoundShape.ready
    UNKNOWN = 0
    READY = 1
    BOUNDED = 2


cdef enum:                              # in the place of a Kind: what has memory on another device than the CPU
    ON_DEVICE = 16


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
    cdef vector[int64_t] scratch        # bytes of each delegate call; their offsets follow those of the planned buffers
    cdef object device_plans            # Plan of each device's region, in the order of DeviceMemory; None before
    cdef object search                  # AnytimePlanner that looks for a lower peak; None before it is wanted
    # Of methods in which data tells sizes. A stage begins where data tells something; a call goes from stage to stage.
    cdef vector[int64_t] registers      # as far as they are known
    cdef vector[uint8_t] known          # of each register
    cdef vector[uint8_t] ready          # of each value: whether its sizes are known
    cdef vector[int32_t] changed_calls  # delegate calls that get other scratch than in the stage before
    cdef vector[int32_t] changed        # values with another size or place than in the stage before
    cdef vector[int32_t] appeared       # owners of outputs whose sizes are known from here on
    cdef vector[Move] moves             # what must be copied to its new place, in this order
    cdef readonly int64_t run_peak      # largest peak of all stages up to this one
    cdef readonly int64_t run_bound     # largest lower bound of all stages up to this one
    cdef readonly int64_t run_plan_ns
    cdef readonly int64_t moved_bytes   # up to here
    cdef int64_t aside_bytes            # largest sum of what the moves put aside
    cdef readonly int stage             # 0 for the first
    cdef dict following                 # (position, told numbers) -> the stage that begins there
    cdef bint is_cached                 # a PlanCache has it
    cdef size_t tree_bytes              # of the stages that follow a first one
    cdef size_t footprint(self) noexcept


cdef class ShapeBinder:
    cdef readonly object section        # the decoded plan section
    cdef SizeProgram program
    cdef OffsetPlanner planner
    cdef OrientedPlanner oriented       # around it
    cdef readonly DelegateScratch scratch   # of the loaded method; None when there is none
    cdef vector[int32_t] rank           # of each value
    cdef vector[int32_t] start          # of each value: where its dimensions begin in the flat lists
    cdef vector[int32_t] registers      # flat: the size of each dimension of each value
    cdef vector[ValueShape] shapes      # of each value: what measuring needs, close together
    cdef vector[int32_t] results        # owners of outputs
    cdef vector[int32_t] sharing        # values in memory of others or of growing states; all that data may leave out
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
    cdef vector[int64_t] buffer_bytes   # of each planned buffer, while it is planned
    cdef vector[int64_t] last_sizes     # the same of the last plan, and that plan
    cdef BoundShape last_plan           # for methods with growing states alone
    cdef bint same_lifetimes            # as in the last plan
    cdef readonly bint in_stages        # data tells some sizes while the method runs
    cdef vector[uint8_t] told           # of each symbol: whether data tells it
    cdef vector[int32_t] bounded        # of each dimension: register with its bound until it is told; -1
    cdef vector[int32_t] crossing       # planned buffers that live across a stop, longest life first
    cdef vector[int32_t] guards         # registers
    cdef Equations equations

    cdef int expect_discoveries(self) except -1
    cdef BoundShape bind(self, const int64_t* key)
    cdef int evaluate(self, BoundShape bound) except -1
    cdef int check_inputs(self, const int64_t* key, const int64_t* registers) except -1
    cdef int check_lengths(self, const int64_t* key, BoundShape bound) except -1
    cdef int measure(self, BoundShape bound) except -1
    cdef int measure_value(self, BoundShape bound, int position) except -1
    cdef void leave_out(self, BoundShape bound, int position) noexcept
    cdef int64_t largest_live(self, BoundShape bound)
    cdef int place(self, BoundShape bound) except -1
    cdef int use_scratch(self, DelegateScratch scratch) except -1
    cdef int buffers(self) noexcept
    cdef void list_bytes(self, BoundShape bound, int64_t* sizes) noexcept
    cdef int64_t bytes_of(self, BoundShape bound, int buffer) noexcept
    cdef int measure_scratch(self, BoundShape bound, BoundShape before) except -1
    cdef bint call_is_ready(self, BoundShape bound, int call) noexcept
    cdef bint call_changed(self, BoundShape bound, BoundShape before, int call) noexcept
    cdef int place_scratch(self, BoundShape bound, int call, char* base) except -1
    cdef object sizes_text(self, BoundShape bound)
    cdef object too_large(self, int position, BoundShape bound)
