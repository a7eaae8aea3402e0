"""Recorded copies, fills and changes of layouts."""

from etarena.device.vulkan.recording cimport Recording


cdef class CopyCommands(Recording):
    pass
