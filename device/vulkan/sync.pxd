"""Fences, semaphores, query pools."""

from libc.stdint cimport uint32_t
from libcpp.memory cimport unique_ptr

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceObject


cdef class Fence(DeviceObject):
    cdef unique_ptr[vk.Fence] c_obj
    cdef public object work                # None, or the lease of the commands that signal it
    cdef public int waiters                # threads that must not see it reset


cdef class Semaphore(DeviceObject):
    cdef unique_ptr[vk.Semaphore] c_obj
    cdef readonly bint timeline
    cdef readonly bint adopted
    cdef bint signal_due                   # binary: submitted work signals it and nothing waited for it yet

    cdef int require_timeline(self) except -1


cdef class QueryPool(DeviceObject):
    cdef unique_ptr[vk.QueryPool] c_obj
    cdef readonly uint32_t count
