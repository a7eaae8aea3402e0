# distutils: language = c++
"""Memory of a device as an opaque handle."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from etarena.device.abi cimport (
    ETARENA_RESOURCE_CUSTOM,
    ETARENA_RESOURCE_DEVICE_POINTER,
    ETARENA_RESOURCE_FD,
    ETARENA_RESOURCE_HOST,
    ETARENA_RESOURCE_VK_BUFFER,
    ETARENA_RESOURCE_VK_IMAGE,
    etarena_resource,
    etarena_vk_buffer,
    etarena_vk_image,
)

from ..allocator.errors import DeviceError
from .handles import FileDescriptor, handle_number
from .kinds import ResourceKind, kind_name

__all__ = ["Resource"]

cdef object LARGEST = 1 << 62


@cython.final
cdef class Resource:
    """Bytes ``[offset, offset + nbytes)`` of what a handle names. Immutable; made by its class methods only.

    Attributes
    ----------
    owner : object
        Kept alive as long as the resource: whatever frees the handle when it is dropped. None: the handle is the
        caller's to keep.
    """

    def __init__(self):
        raise TypeError("resources are made by Resource.host, .vk_buffer, .vk_image, .device_pointer, .fd, .custom")

    @classmethod
    def host(cls, address, nbytes, *, offset=0, owner=None) -> Resource:
        """Memory that the CPU may read and write, at an address."""
        return new_resource(ETARENA_RESOURCE_HOST, address, offset, nbytes, owner)

    @classmethod
    def device_pointer(cls, address, nbytes, *, offset=0, owner=None) -> Resource:
        """An address in a device's memory, such as CUDA's."""
        return new_resource(ETARENA_RESOURCE_DEVICE_POINTER, address, offset, nbytes, owner)

    @classmethod
    def fd(cls, number, nbytes, *, offset=0) -> Resource:
        """A dma-buf or an opaque export, of whose file descriptor the resource keeps a duplicate."""
        descriptor = FileDescriptor(number)
        return new_resource(ETARENA_RESOURCE_FD, descriptor.number, offset, nbytes, descriptor)

    @classmethod
    def custom(cls, kind, handle, nbytes, *, offset=0, next=0, owner=None) -> Resource:
        """A kind of a delegate's author, 0x10000 or above; `next` is the address of a struct that says more."""
        if not ETARENA_RESOURCE_CUSTOM <= kind < 1 << 32:
            raise DeviceError(f"kind {kind} is none of an author's: those are 0x10000 to 0xffffffff")
        cdef Resource out = new_resource(kind, handle, offset, nbytes, owner)
        out.c_obj.next = <const void*><uintptr_t> handle_number(next, "next")
        return out

    @classmethod
    def vk_buffer(
        cls, handle, nbytes, *, offset=0, usage=0, memory=0, memory_offset=0, device=0, owner=None
    ) -> Resource:
        """A VkBuffer. Handles are numbers or cffi or ctypes handles; `device` is the VkDevice it belongs to."""
        cdef Resource out = new_resource(ETARENA_RESOURCE_VK_BUFFER, handle, offset, nbytes, owner)
        out.buffer_info.struct_size = sizeof(etarena_vk_buffer)
        out.buffer_info.usage = usage
        out.buffer_info.memory = handle_number(memory, "memory")
        out.buffer_info.memory_offset = handle_number(memory_offset, "memory_offset")
        out.buffer_info.device = handle_number(device, "device")
        out.c_obj.next = &out.buffer_info
        return out

    @classmethod
    def vk_image(
        cls, handle, *, width, height, depth=1, format, layout=0, view=0, device=0, usage=0, srgb=False, nbytes=0,
        owner=None,
    ) -> Resource:
        """A VkImage of width x height x depth texels; `format` and `layout` are VkFormat and VkImageLayout numbers."""
        cdef Resource out = new_resource(ETARENA_RESOURCE_VK_IMAGE, handle, 0, nbytes, owner)
        for name, extent in (("width", width), ("height", height), ("depth", depth)):
            if not 0 < extent < 1 << 32:
                raise DeviceError(f"{name}={extent} texels: an image has at least one")
        out.image_info.struct_size = sizeof(etarena_vk_image)
        out.image_info.width, out.image_info.height, out.image_info.depth = width, height, depth
        out.image_info.format, out.image_info.layout, out.image_info.usage = format, layout, usage
        out.image_info.view = handle_number(view, "view")
        out.image_info.device = handle_number(device, "device")
        out.image_info.colour_space = 1 if srgb else 0
        out.c_obj.next = &out.image_info
        return out

    def part(self, offset, nbytes, owner=None) -> Resource:
        """Bytes ``[offset, offset + nbytes)`` of this resource, as one that keeps this one alive, or `owner` instead.

        Raises
        ------
        DeviceError
            They are not inside.
        """
        cdef Resource out
        if offset < 0 or nbytes < 0 or nbytes > self.nbytes or offset > self.nbytes - nbytes:
            raise DeviceError(f"bytes {offset} to {offset + nbytes} are not inside {self!r}")
        out = Resource.__new__(Resource)
        out.c_obj, out.buffer_info, out.image_info = self.c_obj, self.buffer_info, self.image_info
        link_details(out, self)
        out.c_obj.offset += <uint64_t> offset
        out.c_obj.nbytes = nbytes
        out.owner = self if owner is None else owner
        return out

    @property
    def kind(self) -> int:
        """A `ResourceKind`, or the number of an author's kind."""
        return ResourceKind(self.c_obj.kind) if self.c_obj.kind < ETARENA_RESOURCE_CUSTOM else self.c_obj.kind

    @property
    def handle(self) -> int:
        """What the kind says: address, VkBuffer, VkImage, file descriptor."""
        return self.c_obj.handle

    @property
    def offset(self) -> int:
        """First byte, counted from where the handle begins."""
        return self.c_obj.offset

    @property
    def nbytes(self) -> int:
        """Bytes from there on; 0 for images of unknown size."""
        return self.c_obj.nbytes

    @property
    def address(self) -> int:
        """Address of this resource as the C interface has it (`etarena_resource`), valid while the object lives."""
        return <uintptr_t> &self.c_obj

    @property
    def details(self) -> dict:
        """What is known beyond the handle; empty for most kinds."""
        if self.c_obj.next == &self.buffer_info:
            fields = self.buffer_info
        elif self.c_obj.next == &self.image_info:
            fields = self.image_info
        else:
            return {"next": <uintptr_t> self.c_obj.next} if self.c_obj.next != NULL else {}
        return {name: value for name, value in fields.items() if name != "struct_size"}

    def __repr__(self) -> str:
        return (
            f"<Resource {kind_name(self.c_obj.kind)} handle=0x{self.c_obj.handle:x} offset={self.c_obj.offset} "
            f"nbytes={self.c_obj.nbytes}>"
        )

    def __reduce__(self):
        raise TypeError("a Resource cannot be pickled: its handle means nothing in another process")


cdef Resource new_resource(kind, handle, offset, nbytes, owner):
    cdef Resource out = Resource.__new__(Resource)
    number = handle_number(handle)
    for name, count in (("offset", offset), ("nbytes", nbytes)):
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            raise DeviceError(f"{name} must be a number of bytes, got {count!r}")
        if not 0 <= count <= LARGEST:
            raise DeviceError(f"{name}={count} bytes lies outside 0 to 2**62")
    if number == 0 and kind != ETARENA_RESOURCE_FD and (nbytes or kind == ETARENA_RESOURCE_VK_IMAGE):
        raise DeviceError(f"the handle of a {kind_name(kind)} of {nbytes} bytes is null")
    if kind in (ETARENA_RESOURCE_HOST, ETARENA_RESOURCE_DEVICE_POINTER) and number + offset + nbytes >= 1 << 64:
        raise DeviceError(f"{nbytes} bytes at 0x{number:x} + {offset} go past the last address")
    out.c_obj.struct_size = sizeof(etarena_resource)
    out.c_obj.kind, out.c_obj.handle, out.c_obj.offset, out.c_obj.nbytes = kind, number, offset, nbytes
    out.c_obj.next = NULL
    out.owner = owner
    return out


cdef void link_details(Resource out, Resource source) noexcept:
    if source.c_obj.next == &source.buffer_info:
        out.c_obj.next = &out.buffer_info
    elif source.c_obj.next == &source.image_info:
        out.c_obj.next = &out.image_info


cdef Resource resource_from_c(const etarena_resource* source, object owner):
    """Copy a resource that came through the C interface, with what is known of its kind."""
    cdef Resource out
    cdef etarena_resource known
    memset(&known, 0, sizeof(known))
    if source.struct_size < sizeof(etarena_resource):
        raise DeviceError(
            f"an etarena_resource of {source.struct_size} bytes is older than version 1, which has {sizeof(known)}"
        )
    memcpy(&known, source, sizeof(known))
    if not (ETARENA_RESOURCE_HOST <= known.kind <= ETARENA_RESOURCE_FD or known.kind >= ETARENA_RESOURCE_CUSTOM):
        raise DeviceError(f"a resource of {kind_name(known.kind)}: known are 1 to 5 and those from 0x10000 on")
    out = new_resource(known.kind, known.handle, known.offset, known.nbytes, owner)
    if known.next == NULL:
        return out
    if known.kind == ETARENA_RESOURCE_VK_BUFFER:
        copy_struct(&out.buffer_info, known.next, sizeof(etarena_vk_buffer), "etarena_vk_buffer")
        out.c_obj.next = &out.buffer_info
    elif known.kind == ETARENA_RESOURCE_VK_IMAGE:
        copy_struct(&out.image_info, known.next, sizeof(etarena_vk_image), "etarena_vk_image")
        out.c_obj.next = &out.image_info
    else:
        out.c_obj.next = known.next
    return out


cdef int copy_struct(void* out, const void* source, uint32_t size, str name) except -1:
    cdef uint32_t given = (<const uint32_t*> source)[0]
    if given < size:
        raise DeviceError(f"an {name} of {given} bytes is older than version 1, which has {size}")
    memcpy(out, source, size)
    (<uint32_t*> out)[0] = size
    return 0
