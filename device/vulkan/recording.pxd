"""A command buffer, what it keeps open, and what it may be given."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.memory cimport unique_ptr

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceObject
from etarena.device.vulkan.memory cimport Buffer, Image


cdef class Recording(DeviceObject):
    cdef unique_ptr[vk.CommandPool] c_obj
    cdef unique_ptr[vk.Dispatcher] dispatcher
    cdef readonly list leases              # of all that was recorded: it stays open as long as the recording
    cdef readonly list guards              # checked before each submission
    cdef readonly bint recording
    cdef bint yields                       # what is used can be closed
    cdef bint once                         # submitted a single time
    cdef bint ready                        # ended, and not used up
    cdef bint ordered                      # dispatches see what was submitted before
    cdef set kept                          # what has a lease already
    cdef dict layouts                      # of images, before the first command that changes them

    cdef vk.CommandPool* recorder(self) except NULL
    cdef int keep(self, DeviceObject what) except -1
    cdef int note_layout(self, Image image) except -1
    cdef int require_ready(self) except -1


cdef int require_range(Buffer buffer, uint64_t offset, nbytes, uint32_t usage, str name) except -1
cdef int require_image(Image image, uint32_t usage, str name) except -1
