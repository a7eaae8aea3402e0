"""Recorded commands and their submission."""

from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.copy_commands cimport CopyCommands
from etarena.device.vulkan.memory cimport Image
from etarena.device.vulkan.pipelines cimport Pipeline


cdef class Commands(CopyCommands):
    cdef int bind(self, Pipeline pipeline, tuple resources, vector[vk.Bound]* bound) except -1
    cdef int bind_image(self, Pipeline pipeline, Py_ssize_t index, what, vk.Bound* bound) except -1
    cdef int transfer(self, what, family, uint32_t old_layout, uint32_t new_layout, bint give) except -1
    cdef int transfer_image(self, Image image, uint32_t old_layout, uint32_t new_layout, vk.Owners owners) except -1
