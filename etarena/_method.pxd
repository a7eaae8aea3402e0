"""A method planned at run time: binding, cache of plans, execution."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._device_memory cimport DeviceMemory
from etarena._inputs cimport InputReader
from etarena._outputs cimport OutputWriter
from etarena._plan_cache cimport PlanCache
from etarena._runtime cimport NativeMethod
from etarena._staged_run cimport StagedRun
from etarena._states cimport StateKeeper
from etarena.allocator.arena cimport Arena


cdef struct Fixed:                        # a value whose memory no plan moves
    int position
    char* address
    int64_t nbytes


cdef class PlannedMethod:
    cdef object __weakref__
    cdef readonly str name
    cdef readonly object section          # the decoded plan section
    cdef readonly Arena arena
    cdef object program                   # LoadedProgram: keeps the native program and the state blocks alive
    cdef bint failed                      # the last run ended in the middle: load the method anew before the next
    cdef NativeMethod native
    cdef ShapeBinder binder
    cdef InputReader reader
    cdef OutputWriter writer
    cdef DeviceMemory devices
    cdef StagedRun stages               # None when the input sizes determine all sizes
    cdef PlanCache cache
    cdef readonly bint anytime            # improve plans that are used again, in the background
    cdef bint keeps_plans                 # other plans than the one in use
    cdef BoundShape current               # what the native tensors are bound to; None when they must be bound anew
    cdef vector[int64_t] current_key
    cdef vector[char*] addresses          # of every value at the last rebind
    cdef vector[Fixed] fixed              # states and constants
    cdef tuple labels
    cdef StateKeeper keeper
    cdef object held_states               # of the section, by name: State objects, shared with other methods
    cdef int64_t fixed_state_bytes
    cdef int64_t state_bytes              # after the last run
    cdef int64_t state_bytes_written      # by the last run
    cdef BoundShape last_bound
    cdef bint was_planned                 # the plan of this call was there already
    cdef int64_t bind_ns                  # of this call
    cdef bint last_cached
    cdef int64_t last_plan_ns
    cdef int64_t last_bind_ns
    cdef list last_copies
    cdef tuple last_outside
    cdef object background                # RunQueue

    cdef int load(self) except -1
    cdef int attach(self) except -1
    cdef int start_anew(self) except -1
    cdef BoundShape choose_plan(self)
    cdef BoundShape run(self, BoundShape bound)
    cdef BoundShape told_stage(self, BoundShape bound, object told)
    cdef BoundShape better_plan(self, BoundShape bound)
    cdef int rebind(self, BoundShape bound) except -1
    cdef int point_inputs(self) except -1
