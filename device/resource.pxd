"""Memory of a device as an opaque handle."""

from etarena.device.abi cimport etarena_resource, etarena_vk_buffer, etarena_vk_image


cdef class Resource:
    cdef object __weakref__
    cdef etarena_resource c_obj            # `next` points at one of the two below, or is the author's
    cdef etarena_vk_buffer buffer_info
    cdef etarena_vk_image image_info
    cdef readonly object owner             # keeps what the handle names alive


cdef Resource resource_from_c(const etarena_resource* source, object owner)
