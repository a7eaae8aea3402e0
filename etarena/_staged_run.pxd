"""One call of a method in which data tells sizes."""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._device_memory cimport DeviceMemory
from etarena._outputs cimport OutputWriter
from etarena._runtime cimport NativeMethod, Stop
from etarena._stages cimport StagePlanner
from etarena.allocator.arena cimport Arena


cdef class StagedRun:
    cdef ShapeBinder binder
    cdef StagePlanner planner
    cdef NativeMethod native
    cdef OutputWriter writer
    cdef Arena arena
    cdef DeviceMemory devices
    cdef tuple labels
    cdef size_t cache_limit             # bytes that the stages after one first stage may keep
    cdef BoundShape root                # of the call in progress
    cdef int64_t plan_ns                # of this call, spent on stages after the first
    cdef vector[char] aside             # what waits while live buffers change places

    cdef BoundShape run(self, BoundShape root, vector[char*]& addresses)
    cdef BoundShape follow(self, BoundShape bound, dict told)
    cdef BoundShape next_stage(self, BoundShape bound, Stop* stop)
    cdef int enter(self, BoundShape bound, vector[char*]& addresses) except -1
    cdef void move(self, BoundShape bound) noexcept
