"""Recorded commands and their submission."""

from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceObject
from etarena.device.vulkan.pipelines cimport Pipeline


cdef class Commands(DeviceObject):
    cdef unique_ptr[vk.CommandPool] c_obj
    cdef unique_ptr[vk.Dispatcher] dispatcher
    cdef vector[vk.Bound] bound            # of the dispatch that is being recorded
    cdef bint ordered                      # dispatches see what was submitted before
    cdef set kept                          # what has a lease already
    cdef readonly list leases              # of all that was recorded: it stays open as long as the recording
    cdef readonly list guards              # checked before each submission
    cdef readonly bint recording

    cdef vk.CommandPool* recorder(self) except NULL
    cdef int keep(self, DeviceObject what) except -1
    cdef int bind(self, Pipeline pipeline, resources) except -1
