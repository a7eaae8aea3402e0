# distutils: language = c++
"""Calls into a C table of a device allocator, without the GIL."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from etarena.device.abi cimport (
    ETARENA_ABI,
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

from ..allocator.errors import ArenaFullError, DeviceError, InputError
from .capabilities import FLAGS, Capabilities
from .device import Device

__all__ = ["AllocatorTable"]

STATUS_NAMES = [
    "ETARENA_OK", "ETARENA_INVALID_ARGUMENT", "ETARENA_NOT_SUPPORTED", "ETARENA_OUT_OF_MEMORY", "ETARENA_FAILED",
    "ETARENA_DEVICE_LOST", "ETARENA_TIMEOUT",
]


@cython.final
cdef class AllocatorTable:
    """A copy of an `etarena_device_allocator`; what it points at must outlive this object.

    Parameters
    ----------
    address : int
        Where the struct lies.

    Raises
    ------
    DeviceError
        Another ABI, a struct of an older version, a type or count out of range, or a null function.
    """

    cdef etarena_device_allocator c_obj
    cdef readonly object address

    def __cinit__(self, address):
        cdef const etarena_device_allocator* given = <const etarena_device_allocator*><uintptr_t> address
        # Version 1 ends with synchronize; what a newer author added behind it is not read.
        if given.struct_size < sizeof(etarena_device_allocator):
            raise DeviceError(
                f"an etarena_device_allocator of {given.struct_size} bytes is older than version 1, which has "
                f"{sizeof(etarena_device_allocator)}: was struct_size set?"
            )
        if given.abi != ETARENA_ABI:
            raise DeviceError(f"the table has ABI {given.abi}, this etarena has {ETARENA_ABI}")
        memcpy(&self.c_obj, given, sizeof(etarena_device_allocator))
        self.address = address
        Device(self.c_obj.device_type)
        if not 0 < self.c_obj.device_count <= 128:
            raise DeviceError(f"device_count={self.c_obj.device_count}: expected 1 to 128")
        self.require_functions()

    cdef int require_functions(self) except -1:
        missing = [
            name
            for name, there in (
                ("capabilities", self.c_obj.capabilities != NULL),
                ("allocate", self.c_obj.allocate != NULL),
                ("deallocate", self.c_obj.deallocate != NULL),
                ("copy_to_device", self.c_obj.copy_to_device != NULL),
                ("copy_to_host", self.c_obj.copy_to_host != NULL),
            )
            if not there
        ]
        if missing:
            raise DeviceError(f"the table has no {', '.join(missing)}, which must be there")
        return 0

    @property
    def device_type(self) -> int:
        """Type of the devices."""
        return self.c_obj.device_type

    @property
    def device_count(self) -> int:
        """How many devices."""
        return self.c_obj.device_count

    def capabilities(self, int32_t index):
        cdef etarena_capabilities out
        cdef etarena_error error
        cdef etarena_status status
        memset(&out, 0, sizeof(out))
        out.struct_size = sizeof(out)
        error.message[0] = 0
        with nogil:
            status = self.c_obj.capabilities(self.c_obj.context, index, &out, &error)
        check(status, &error, "capabilities")
        return Capabilities(
            out.alignment, out.max_allocation, out.total_bytes, out.row_pitch, out.import_alignment,
            frozenset(kind for kind in range(1, 64) if out.import_kinds >> kind & 1), out.queue_families,
            **{name: bool(out.flags & bit) for name, bit in FLAGS.items()},
        )

    def allocate(self, int32_t index, uint64_t nbytes, uint64_t alignment):
        cdef etarena_resource out
        cdef etarena_error error
        cdef etarena_status status
        memset(&out, 0, sizeof(out))
        out.struct_size = sizeof(out)
        error.message[0] = 0
        with nogil:
            status = self.c_obj.allocate(self.c_obj.context, index, nbytes, alignment, &out, &error)
        check(status, &error, f"allocate of {nbytes} bytes")
        try:
            return resource_from_c(&out, None)
        except DeviceError:
            if out.handle != 0:          # a call that fails has taken nothing
                with nogil:
                    self.c_obj.deallocate(self.c_obj.context, index, &out)
            raise

    def deallocate(self, int32_t index, Resource resource not None):
        with nogil:
            self.c_obj.deallocate(self.c_obj.context, index, &resource.c_obj)

    def copy_to_device(self, int32_t index, Resource destination not None, uint64_t offset, source):
        cdef etarena_error error
        cdef etarena_status status
        cdef Py_buffer view
        error.message[0] = 0
        PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
        try:
            require_inside(destination, offset, view.len)
            with nogil:
                status = self.c_obj.copy_to_device(
                    self.c_obj.context, index, &destination.c_obj, offset, view.buf, <uint64_t> view.len, &error
                )
            check(status, &error, f"copy_to_device of {view.len} bytes")
        finally:
            PyBuffer_Release(&view)

    def copy_to_host(self, int32_t index, destination, Resource source not None, uint64_t offset):
        cdef etarena_error error
        cdef etarena_status status
        cdef Py_buffer view
        error.message[0] = 0
        PyObject_GetBuffer(destination, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            require_inside(source, offset, view.len)
            with nogil:
                status = self.c_obj.copy_to_host(
                    self.c_obj.context, index, view.buf, &source.c_obj, offset, <uint64_t> view.len, &error
                )
            check(status, &error, f"copy_to_host of {view.len} bytes")
        finally:
            PyBuffer_Release(&view)

    def map(self, int32_t index, Resource resource not None):
        cdef etarena_error error
        cdef etarena_status status
        cdef void* address = NULL
        if self.c_obj.map == NULL:
            return None
        error.message[0] = 0
        with nogil:
            status = self.c_obj.map(self.c_obj.context, index, &resource.c_obj, &address, &error)
        if status == ETARENA_NOT_SUPPORTED:
            return None
        check(status, &error, "map")
        return <uintptr_t> address

    def unmap(self, int32_t index, Resource resource not None):
        cdef etarena_error error
        cdef etarena_status status
        if self.c_obj.unmap == NULL:
            return
        error.message[0] = 0
        with nogil:
            status = self.c_obj.unmap(self.c_obj.context, index, &resource.c_obj, &error)
        check(status, &error, "unmap")

    def synchronize(self, int32_t index):
        cdef etarena_error error
        cdef etarena_status status
        if self.c_obj.synchronize == NULL:
            return
        error.message[0] = 0
        with nogil:
            status = self.c_obj.synchronize(self.c_obj.context, index, &error)
        check(status, &error, "synchronize")


cdef int require_inside(Resource resource, uint64_t offset, Py_ssize_t nbytes) except -1:
    if <uint64_t> nbytes > resource.c_obj.nbytes or offset > resource.c_obj.nbytes - <uint64_t> nbytes:
        raise DeviceError(f"bytes {offset} to {offset + nbytes} are not inside {resource!r}")
    return 0


cdef int check(etarena_status status, etarena_error* error, str what) except -1:
    """Raise what a status means, with the text that came with it."""
    if status == ETARENA_OK:
        return 0
    error.message[sizeof(error.message) - 1] = 0
    text = (<bytes> error.message).decode(errors="replace")
    name = STATUS_NAMES[status] if 0 <= status < len(STATUS_NAMES) else f"unknown status {status}"
    message = f"{what}: {name}{': ' if text else ''}{text}"
    if status == ETARENA_OUT_OF_MEMORY:
        raise ArenaFullError(message)
    if status == ETARENA_INVALID_ARGUMENT:
        raise InputError(message)
    raise DeviceError(message)
