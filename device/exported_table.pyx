# distutils: language = c++
"""A `DeviceAllocator` of Python as a C table, for callers without Python."""

cimport cython
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from etarena.device.abi cimport (
    ETARENA_ABI,
    ETARENA_FAILED,
    ETARENA_INVALID_ARGUMENT,
    ETARENA_NOT_SUPPORTED,
    ETARENA_OK,
    ETARENA_OUT_OF_MEMORY,
    etarena_capabilities,
    etarena_device_allocator,
    etarena_error,
    etarena_resource,
    etarena_status,
)
from etarena.device.resource cimport Resource, resource_from_c

import sys

from .device import Device
from .etensor import ETensor

__all__ = ["ExportedTable"]


@cython.final
cdef class ExportedTable:
    """An `etarena_device_allocator` whose functions call a `DeviceAllocator`. Valid while this object lives.

    Parameters
    ----------
    allocator : DeviceAllocator
        Called with the GIL, from any thread.
    """

    cdef etarena_device_allocator c_obj
    cdef readonly object allocator
    cdef dict live                       # (kind, handle, offset) -> what allocate returned, which deallocate gets back

    def __init__(self, allocator):
        self.allocator, self.live = allocator, {}
        self.c_obj.struct_size, self.c_obj.abi = sizeof(etarena_device_allocator), ETARENA_ABI
        self.c_obj.context = <void*> self
        self.c_obj.device_type = Device(allocator.device_type).type
        self.c_obj.device_count = allocator.device_count
        self.c_obj.capabilities, self.c_obj.allocate, self.c_obj.deallocate = capabilities, allocate, deallocate
        self.c_obj.copy_to_device, self.c_obj.copy_to_host = copy_to_device, copy_to_host
        self.c_obj.map, self.c_obj.unmap, self.c_obj.synchronize = map_resource, unmap_resource, synchronize

    @property
    def address(self) -> int:
        """Where the table lies."""
        return <uintptr_t> &self.c_obj

    def capsule(self):
        """The table as a capsule of the name ``"etarena_device_allocator"``; keep this object alive meanwhile."""
        return PyCapsule_New(&self.c_obj, "etarena_device_allocator", NULL)


cdef etarena_status failed(etarena_error* out) noexcept:
    """Turn the exception being handled into a status and a text."""
    error = sys.exception() if sys.version_info >= (3, 12) else sys.exc_info()[1]
    text = f"{type(error).__name__}: {error}".encode()[:sizeof(out.message) - 1]
    if out != NULL:
        memcpy(out.message, <const char*> text, len(text))
        out.message[len(text)] = 0
    if isinstance(error, MemoryError):
        return ETARENA_OUT_OF_MEMORY
    if isinstance(error, NotImplementedError):
        return ETARENA_NOT_SUPPORTED
    return ETARENA_INVALID_ARGUMENT if isinstance(error, ValueError) else ETARENA_FAILED


cdef tuple key_of(const etarena_resource* resource):
    return resource.kind, resource.handle, resource.offset


cdef Resource known_resource(ExportedTable table, const etarena_resource* resource):
    """The object that allocate returned, or a new one for parts of it and memory of others."""
    found = table.live.get(key_of(resource))
    return resource_from_c(resource, None) if found is None else found


cdef object bytes_at(const void* address, uint64_t nbytes, bint readonly):
    return memoryview(ETensor.from_pointer(<uintptr_t> address or 1, "uint8", (nbytes,), readonly=readonly))


cdef etarena_status capabilities(
    void* context, int32_t index, etarena_capabilities* out, etarena_error* error
) noexcept with gil:
    try:
        found = (<ExportedTable> <PyObject*> context).allocator.capabilities(index)
        out.flags, out.alignment = found.flags, found.alignment
        out.max_allocation, out.total_bytes = found.max_allocation, found.total_bytes
        out.row_pitch, out.import_alignment = found.row_pitch, found.import_alignment
        out.import_kinds = sum([1 << kind for kind in found.import_kinds])
        out.queue_families = found.queue_families
        return ETARENA_OK
    except BaseException:
        return failed(error)


cdef etarena_status allocate(
    void* context, int32_t index, uint64_t nbytes, uint64_t alignment, etarena_resource* out, etarena_error* error
) noexcept with gil:
    cdef Resource resource
    table = <ExportedTable> <PyObject*> context
    try:
        resource = table.allocator.allocate(index, nbytes, alignment)
        out[0] = resource.c_obj
        table.live[key_of(out)] = resource
        return ETARENA_OK
    except BaseException:
        return failed(error)


cdef void deallocate(void* context, int32_t index, const etarena_resource* resource) noexcept with gil:
    table = <ExportedTable> <PyObject*> context
    found = known_resource(table, resource)
    table.live.pop(key_of(resource), None)
    table.allocator.deallocate(index, found)


cdef etarena_status copy_to_device(
    void* context, int32_t index, const etarena_resource* destination, uint64_t offset, const void* source,
    uint64_t nbytes, etarena_error* error
) noexcept with gil:
    table = <ExportedTable> <PyObject*> context
    try:
        table.allocator.copy_to_device(
            index, known_resource(table, destination), offset, bytes_at(source, nbytes, True)
        )
        return ETARENA_OK
    except BaseException:
        return failed(error)


cdef etarena_status copy_to_host(
    void* context, int32_t index, void* destination, const etarena_resource* source, uint64_t offset, uint64_t nbytes,
    etarena_error* error
) noexcept with gil:
    table = <ExportedTable> <PyObject*> context
    try:
        table.allocator.copy_to_host(
            index, bytes_at(destination, nbytes, False), known_resource(table, source), offset
        )
        return ETARENA_OK
    except BaseException:
        return failed(error)


cdef etarena_status map_resource(
    void* context, int32_t index, const etarena_resource* resource, void** address, etarena_error* error
) noexcept with gil:
    table = <ExportedTable> <PyObject*> context
    try:
        found = table.allocator.map(index, known_resource(table, resource))
        if found is None:
            return ETARENA_NOT_SUPPORTED
        address[0] = <void*> <uintptr_t> found
        return ETARENA_OK
    except BaseException:
        return failed(error)


cdef etarena_status unmap_resource(
    void* context, int32_t index, const etarena_resource* resource, etarena_error* error
) noexcept with gil:
    table = <ExportedTable> <PyObject*> context
    try:
        table.allocator.unmap(index, known_resource(table, resource))
        return ETARENA_OK
    except BaseException:
        return failed(error)


cdef etarena_status synchronize(void* context, int32_t index, etarena_error* error) noexcept with gil:
    try:
        (<ExportedTable> <PyObject*> context).allocator.synchronize(index)
        return ETARENA_OK
    except BaseException:
        return failed(error)
