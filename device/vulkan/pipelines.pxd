"""Compute pipelines and their cache."""

from libc.stdint cimport uint32_t
from libcpp.memory cimport unique_ptr

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceObject


cdef class PipelineCache(DeviceObject):
    cdef unique_ptr[vk.PipelineCache] c_obj


cdef class Pipeline(DeviceObject):
    cdef unique_ptr[vk.ComputePipeline] c_obj
    cdef readonly str bindings
    cdef readonly uint32_t push_bytes
    cdef readonly tuple workgroup          # invocations in x, y and z
    cdef bytes letters                     # `bindings`, to be read fast
    cdef dict images                       # of bindings: whether three-dimensional, and the VkFormat or 0

    cdef int require_image_kind(self, Py_ssize_t index, bint volume, uint32_t format) except -1
