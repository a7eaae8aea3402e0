"""Instances, devices, and what all objects of a device share."""

from libc.stdint cimport uint64_t
from libcpp.memory cimport shared_ptr, unique_ptr

from etarena.device.vulkan cimport vk


cdef class InstanceCore:
    cdef object __weakref__
    cdef shared_ptr[vk.Instance] c_obj


cdef class DeviceCore:
    cdef object __weakref__
    cdef shared_ptr[vk.Context] c_obj
    cdef unique_ptr[vk.Queue] queue
    cdef readonly InstanceCore instance
    cdef readonly uint64_t physical_device
    cdef readonly int queue_family_index

    cdef int require_open(self) except -1


cdef class DeviceObject:
    cdef object __weakref__
    cdef readonly DeviceCore core          # Python's view; the C++ object holds the VkDevice itself
    cdef readonly object uses              # who needs it open: tensors, buffers bound to it, work of the device
    cdef bint is_open
    cdef object yielding                   # recordings that let go of it when it is closed; None if there are none

    cdef void drop(self) noexcept          # destroys the C++ object
    cdef int require_open(self) except -1
    cdef int start(self, DeviceCore core) except -1


cdef class Lease:
    cdef DeviceObject leased
    cdef str who
