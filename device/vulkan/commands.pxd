"""Recorded commands and their submission."""

from libcpp.memory cimport unique_ptr

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceObject


cdef class Commands(DeviceObject):
    cdef unique_ptr[vk.CommandPool] c_obj
    cdef readonly list leases              # of all that was recorded: it stays open as long as the recording
    cdef readonly list guards              # checked before each submission
    cdef readonly bint recording

    cdef vk.CommandPool* recorder(self) except NULL
    cdef int keep(self, DeviceObject what) except -1
