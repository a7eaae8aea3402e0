# distutils: language = c++
"""Device memory, buffers, images."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceCore, DeviceObject

import weakref

from ...allocator.errors import DeviceError, InputError
from ..resource import Resource

__all__ = ["Buffer", "Image", "Memory", "external_buffer_features", "host_pointer_types", "known_object"]

cdef uint32_t HOST_VISIBLE = 2  # VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
cdef uint32_t BUFFER_USAGES = 0x1FF  # of Vulkan 1.0
cdef uint32_t IMAGE_USAGES = 0xBF    # of Vulkan 1.0, without TRANSIENT_ATTACHMENT
cdef uint32_t SAMPLED_STORAGE_OR_ATTACHMENT = 0x4 | 0x8 | 0x10  # usages that may have a view


# By VkDevice and handle, so that whoever has a handle alone finds the object that keeps it open.
known = weakref.WeakValueDictionary()
cdef set TENSORS = {"a resource of it", "a tensor of it"}  # by what name they keep it open


def known_object(DeviceCore core not None, kind, uint64_t handle) -> Buffer | Image | None:
    """The open `Buffer` or `Image`, whichever `kind` is, with this handle, if it was made or adopted here.

    An adopted one counts as long as a tensor has it: after that the application may destroy it, and the handle may come
    back as that of something else.
    """
    found = known.get((core.handle, kind, handle))
    if found is None or found.is_closed:
        return None
    return None if found.adopted and not found.uses.keys() & TENSORS else found


cdef void remember(DeviceObject made, uint64_t handle):
    """Find it by its handle from now on, unless that is of an object that was made here."""
    found = known.get((made.core.handle, type(made), handle))
    if found is None or found.is_closed or found.adopted:
        known[made.core.handle, type(made), handle] = made


def host_pointer_types(DeviceCore core not None, uint64_t address) -> int:
    """Bits of the memory types as which host memory at an address can be imported."""
    core.require_open()
    return vk.host_pointer_types(core.c_obj.get()[0], address)


def external_buffer_features(DeviceCore core not None, uint32_t usage, uint32_t handle_type) -> int:
    """VkExternalMemoryFeatureFlags of buffers in memory of a handle type."""
    core.require_open()
    return vk.external_buffer_features(core.c_obj.get()[0], usage, handle_type)


@cython.final
cdef class Memory(DeviceObject):
    """A VkDeviceMemory: new, or imported from a file descriptor or from memory of the CPU.

    Parameters
    ----------
    core : DeviceCore
        Whose.
    nbytes : int
        Size.
    memory_type : int
        Index into the device's memory types.
    export_types, import_type : int
        VkExternalMemoryHandleTypeFlagBits.
    fd : int
        To import; a duplicate of it is kept.
    host_pointer : int
        Address to import; `owner` keeps it mapped.
    """

    def __cinit__(
        self, DeviceCore core not None, uint64_t nbytes, uint32_t memory_type, *, uint32_t export_types=0,
        uint32_t import_type=0, int fd=-1, uint64_t host_pointer=0, uint32_t properties=0, owner=None,
    ):
        cdef vk.MemorySource source
        if nbytes == 0:
            raise InputError("device memory of 0 bytes was asked for")
        core.require_open()
        if memory_type >= core.c_obj.get().memory_type_count():
            raise InputError(f"memory type {memory_type}: the device has {core.c_obj.get().memory_type_count()}")
        self.start(core)
        source.export_types, source.import_type = export_types, import_type
        source.fd, source.host_pointer = fd, host_pointer
        with nogil:
            self.c_obj.reset(new vk.Memory(core.c_obj, nbytes, memory_type, source))
        self.host_visible = properties & HOST_VISIBLE != 0
        self.memory_type, self.export_types = memory_type, export_types
        self.owner = owner

    @property
    def handle(self) -> int:
        """The VkDeviceMemory."""
        self.require_open()
        return self.c_obj.get().number()

    @property
    def nbytes(self) -> int:
        """Size."""
        self.require_open()
        return self.c_obj.get().size()

    def map(self) -> int:
        """Address at which the CPU sees it, until it is closed."""
        self.require_open()
        if not self.host_visible:
            raise DeviceError("this device memory cannot be mapped: it is not host-visible; copy to and from it")
        return self.c_obj.get().map()

    def flush(self) -> None:
        """Let the device see what the CPU wrote. Does nothing for coherent memory."""
        self.require_open()
        self.c_obj.get().flush()

    def invalidate(self) -> None:
        """Let the CPU see what the device wrote. Does nothing for coherent memory."""
        self.require_open()
        self.c_obj.get().invalidate()

    def export_fd(self, uint32_t handle_type) -> int:
        """A new file descriptor of the memory, which the caller closes."""
        self.require_open()
        return self.c_obj.get().export_fd(handle_type)

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()


@cython.final
@cython.no_gc_clear  # the memory it lies in must outlive it
cdef class Buffer(DeviceObject):
    """A VkBuffer.

    Parameters
    ----------
    core : DeviceCore
        Whose.
    nbytes : int
        Size.
    usage : int
        VkBufferUsageFlags.
    external : int
        VkExternalMemoryHandleTypeFlags of the memory it will lie in.
    handle : int
        The application's VkBuffer, used and not destroyed; 0: make one, to be bound with `bind`.
    """

    def __cinit__(
        self, DeviceCore core not None, uint64_t nbytes, uint32_t usage, *, uint32_t external=0, uint64_t handle=0
    ):
        if nbytes == 0:
            raise InputError("a Vulkan buffer of 0 bytes was asked for")
        if handle == 0 and (usage == 0 or usage & ~BUFFER_USAGES):
            raise InputError(f"usage 0x{usage:x} of a buffer: expected bits of 0x{BUFFER_USAGES:x}, at least one")
        self.start(core)
        self.adopted = handle != 0
        with nogil:
            if handle != 0:
                self.c_obj.reset(new vk.Buffer(core.c_obj, handle))
            else:
                self.c_obj.reset(new vk.Buffer(core.c_obj, nbytes, usage, external))
        self.nbytes, self.usage = nbytes, usage
        remember(self, self.c_obj.get().number())

    @property
    def handle(self) -> int:
        """The VkBuffer."""
        self.require_open()
        return self.c_obj.get().number()

    @property
    def requirements(self) -> tuple:
        """Bytes and alignment of the memory it wants, and bits of the memory types that will do."""
        cdef vk.Requirements found
        self.require_open()
        found = self.c_obj.get().requirements()
        return found.size, found.alignment, found.type_bits

    def bind(self, Memory memory not None, uint64_t offset=0) -> None:
        """Let it lie in memory, which stays open as long as the buffer."""
        require_bindable(self, self.adopted, self.memory, memory, offset)
        lease = memory.lease("a buffer in it")
        self.c_obj.get().bind(memory.c_obj.get().number(), offset)
        self.memory, self.memory_offset, self.memory_lease = memory, offset, lease

    def resource(self, uint64_t offset=0, nbytes=None) -> Resource:
        """Bytes ``[offset, offset + nbytes)`` as a resource; the buffer stays open as long as that lives."""
        self.require_open()
        size = self.nbytes - offset if nbytes is None else nbytes
        if size < 0 or offset > self.nbytes or size > self.nbytes - offset:
            raise DeviceError(f"bytes {offset} to {offset + size} are not inside a buffer of {self.nbytes} bytes")
        memory = 0 if self.memory is None else self.memory.handle
        return Resource.vk_buffer(
            self.handle, size, offset=offset, usage=self.usage, memory=memory, memory_offset=self.memory_offset,
            device=self.core.handle, owner=(self, self.lease("a resource of it")),
        )

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()
        self.memory_lease = self.memory = None

    def __dealloc__(self):
        self.c_obj.reset()  # before the memory that the lease keeps


@cython.final
@cython.no_gc_clear  # the memory it lies in must outlive it
cdef class Image(DeviceObject):
    """A VkImage with one level, one layer, one sample.

    Parameters
    ----------
    core : DeviceCore
        Whose.
    width, height, depth : int
        Texels.
    format : int
        VkFormat.
    usage : int
        VkImageUsageFlags.
    layout : int
        VkImageLayout that it is in.
    handle : int
        The application's VkImage, used and not destroyed; 0: make one, to be bound with `bind`.
    """

    def __cinit__(
        self, DeviceCore core not None, uint32_t width, uint32_t height, uint32_t depth, uint32_t format,
        uint32_t usage, *, uint32_t layout=0, uint64_t handle=0,
    ):
        if not (width and height and depth):
            raise InputError(f"an image of {width} x {height} x {depth} texels was asked for")
        if handle == 0 and (usage == 0 or usage & ~IMAGE_USAGES):
            raise InputError(f"usage 0x{usage:x} of an image: expected bits of 0x{IMAGE_USAGES:x}, at least one")
        self.start(core)
        self.adopted = handle != 0
        with nogil:
            if handle != 0:
                self.c_obj.reset(new vk.Image(core.c_obj, handle))
            else:
                self.c_obj.reset(new vk.Image(core.c_obj, width, height, depth, format, usage))
        self.width, self.height, self.depth = width, height, depth
        self.format, self.usage, self.layout = format, usage, layout
        remember(self, self.c_obj.get().number())

    @property
    def handle(self) -> int:
        """The VkImage."""
        self.require_open()
        return self.c_obj.get().number()

    @property
    def requirements(self) -> tuple:
        """Bytes and alignment of the memory it wants, and bits of the memory types that will do."""
        cdef vk.Requirements found
        self.require_open()
        found = self.c_obj.get().requirements()
        return found.size, found.alignment, found.type_bits

    def bind(self, Memory memory not None, uint64_t offset=0) -> None:
        """Let it lie in memory, which stays open as long as the image."""
        require_bindable(self, self.adopted, self.memory, memory, offset)
        lease = memory.lease("an image in it")
        self.c_obj.get().bind(memory.c_obj.get().number(), offset)
        self.memory, self.memory_lease = memory, lease

    @property
    def view(self) -> int:
        """A VkImageView of all of it, made when it is first asked for; 0 if its usage allows none."""
        self.require_open()
        if not self.usage & SAMPLED_STORAGE_OR_ATTACHMENT:
            return 0
        if self.c_view.get() == NULL:
            self.c_view.reset(
                new vk.ImageView(self.core.c_obj, self.c_obj.get().number(), self.format, self.depth > 1)
            )
        return self.c_view.get().number()

    def resource(self) -> Resource:
        """All of it as a resource; the image stays open as long as that lives."""
        self.require_open()
        return Resource.vk_image(
            self.handle, width=self.width, height=self.height, depth=self.depth, format=self.format,
            layout=self.layout, view=self.view, device=self.core.handle, usage=self.usage,
            owner=(self, self.lease("a resource of it")),
        )

    cdef void drop(self) noexcept:
        with nogil:
            self.c_view.reset()
            self.c_obj.reset()
        self.memory_lease = self.memory = None

    def __dealloc__(self):
        self.c_view.reset()
        self.c_obj.reset()  # before the memory that the lease keeps


cdef int require_bindable(DeviceObject what, bint adopted, Memory bound, Memory memory, uint64_t offset) except -1:
    """Refuse a binding that Vulkan forbids."""
    size, alignment, type_bits = what.requirements
    if adopted or bound is not None:
        raise DeviceError(f"this Vulkan {type(what).__name__} has memory already")
    if memory.core is not what.core:
        raise DeviceError("memory of another Vulkan device was given")
    if not type_bits >> memory.memory_type & 1:
        raise DeviceError(f"a {type(what).__name__} like this cannot lie in memory of type {memory.memory_type}")
    if offset % alignment or size > memory.nbytes or offset > memory.nbytes - size:
        raise DeviceError(
            f"{size} bytes at a multiple of {alignment} are needed, not at {offset} of {memory.nbytes} bytes of memory"
        )
    return 0
