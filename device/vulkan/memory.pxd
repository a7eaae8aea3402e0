"""Device memory, buffers, images."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.memory cimport unique_ptr

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceObject


cdef class Memory(DeviceObject):
    cdef unique_ptr[vk.Memory] c_obj
    cdef readonly object owner              # imported host memory: what keeps it mapped
    cdef readonly bint host_visible
    cdef readonly uint32_t memory_type
    cdef readonly uint32_t export_types     # VkExternalMemoryHandleTypeFlags


cdef class Buffer(DeviceObject):
    cdef unique_ptr[vk.Buffer] c_obj
    cdef readonly uint64_t nbytes
    cdef readonly uint32_t usage
    cdef readonly Memory memory             # None: the application's, or not bound
    cdef readonly uint64_t memory_offset    # where in it
    cdef object memory_lease
    cdef readonly bint adopted
    cdef public object guard                # None, or has check(): whether the memory may be used now


cdef class Image(DeviceObject):
    cdef unique_ptr[vk.Image] c_obj
    cdef unique_ptr[vk.ImageView] c_view
    cdef readonly uint32_t width, height, depth, format, usage
    cdef public uint32_t layout             # in which the last recorded work leaves it
    cdef readonly Memory memory             # None: the application's, or not bound
    cdef object memory_lease
    cdef readonly bint adopted
