# distutils: language = c++
"""Recorded copies, fills and changes of layouts."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.masks cimport (
    HOST_READ,
    LAYOUT_GENERAL,
    LAYOUT_PREINITIALIZED,
    LAYOUT_TRANSFER_DST,
    LAYOUT_TRANSFER_SRC,
    LAYOUT_UNDEFINED,
    MEMORY_READ,
    MEMORY_WRITE,
    STAGE_ALL,
    STAGE_HOST,
    STAGE_TRANSFER,
    TRANSFER_READ,
    TRANSFER_WRITE,
    USAGE_DST,
    USAGE_SRC,
)
from etarena.device.vulkan.memory cimport Buffer, Image
from etarena.device.vulkan.recording cimport Recording, require_image, require_range

from ...allocator.errors import DeviceError, InputError
from .formats import format_of

__all__ = ["CopyCommands"]


@cython.no_gc_clear  # what was recorded must outlive it
cdef class CopyCommands(Recording):
    """The part of `Commands` that moves bytes.

    Every copy waits for all that was submitted before on this queue, and is seen by all that is submitted after it
    and by the CPU.
    """

    def copy_buffer(self, Buffer source not None, Buffer to not None, uint64_t source_offset=0, uint64_t to_offset=0,
                    nbytes=None) -> None:
        """Copy bytes from one buffer to another; all that fit by default."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef uint64_t size
        if nbytes is None:
            nbytes = max(0, min(int(source.nbytes) - int(source_offset), int(to.nbytes) - int(to_offset)))
        require_range(source, source_offset, nbytes, USAGE_SRC, "TRANSFER_SRC")
        require_range(to, to_offset, nbytes, USAGE_DST, "TRANSFER_DST")
        if source is to and source_offset < to_offset + nbytes and to_offset < source_offset + nbytes:
            raise InputError(
                f"a copy of {nbytes} bytes from {source_offset} to {to_offset} of one buffer overlaps itself"
            )
        size = nbytes
        self.keep(source)
        self.keep(to)
        before_transfer(recorder)
        recorder.copy_buffer(source.c_obj.get().number(), to.c_obj.get().number(), source_offset, to_offset, size)
        after_transfer(recorder)

    def fill_buffer(self, Buffer to not None, uint64_t offset, uint64_t nbytes, uint32_t value=0) -> None:
        """Fill bytes with a number of 32 bits; offset and size are multiples of four."""
        cdef vk.CommandPool* recorder = self.recorder()
        require_range(to, offset, nbytes, USAGE_DST, "TRANSFER_DST")
        if offset % 4 or nbytes % 4:
            raise InputError(f"fill of {nbytes} bytes at {offset}: both must be multiples of 4")
        self.keep(to)
        before_transfer(recorder)
        recorder.fill_buffer(to.c_obj.get().number(), offset, nbytes, value)
        after_transfer(recorder)

    def copy_to_image(self, Buffer source not None, uint64_t offset, uint64_t nbytes, Image to not None) -> None:
        """Fill an image with dense rows of texels. It ends in GENERAL if its contents were undefined before."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vk.ImageCopy all_of_it = whole(to, offset)
        require_range(source, offset, nbytes, USAGE_SRC, "TRANSFER_SRC")
        require_rows(to, offset, nbytes)
        require_image(to, USAGE_DST, "TRANSFER_DST")
        self.keep(source)
        self.keep(to)
        self.note_layout(to)
        before_transfer(recorder)
        enter(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)
        recorder.copy_to_image(source.c_obj.get().number(), to.c_obj.get().number(), all_of_it)
        leave(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)

    def copy_from_image(self, Image source not None, Buffer to not None, uint64_t offset, uint64_t nbytes) -> None:
        """Write all texels of an image as dense rows."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vk.ImageCopy all_of_it = whole(source, offset)
        require_range(to, offset, nbytes, USAGE_DST, "TRANSFER_DST")
        require_rows(source, offset, nbytes)
        require_image(source, USAGE_SRC, "TRANSFER_SRC")
        require_contents(source)
        self.keep(source)
        self.keep(to)
        before_transfer(recorder)
        enter(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        recorder.copy_from_image(source.c_obj.get().number(), to.c_obj.get().number(), all_of_it)
        leave(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        after_transfer(recorder)

    def copy_image(self, Image source not None, Image to not None) -> None:
        """Copy all texels to an image of the same size and texel size."""
        cdef vk.CommandPool* recorder = self.recorder()
        if source is to or (source.width, source.height, source.depth) != (to.width, to.height, to.depth):
            raise InputError("images are copied to another image of the same size")
        if format_of(source.format).texel_bytes != format_of(to.format).texel_bytes:
            raise InputError("images are copied to another image of the same texel size")
        require_image(source, USAGE_SRC, "TRANSFER_SRC")
        require_image(to, USAGE_DST, "TRANSFER_DST")
        require_contents(source)
        self.keep(source)
        self.keep(to)
        self.note_layout(to)
        enter(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        enter(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)
        recorder.copy_image(
            source.c_obj.get().number(), to.c_obj.get().number(), source.width, source.height, source.depth
        )
        leave(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        leave(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)

    def transition(self, Image image not None, uint32_t layout) -> None:
        """Bring an image into another VkImageLayout, after all that was recorded before."""
        cdef vk.CommandPool* recorder = self.recorder()
        if layout in (LAYOUT_UNDEFINED, LAYOUT_PREINITIALIZED):
            raise InputError("an image cannot be brought into the layout UNDEFINED or PREINITIALIZED")
        image.require_open()
        self.keep(image)
        self.note_layout(image)
        recorder.image_barrier(
            image.c_obj.get().number(), image.layout, layout, STAGE_ALL, MEMORY_WRITE, STAGE_ALL,
            MEMORY_READ | MEMORY_WRITE,
        )
        image.layout = layout


cdef int require_contents(Image image) except -1:
    if image.layout == LAYOUT_UNDEFINED:
        raise DeviceError("the image is in the layout UNDEFINED: nothing was written to it; say its layout if it was")
    return 0


cdef int require_rows(Image image, uint64_t offset, uint64_t nbytes) except -1:
    """Refuse bytes of a buffer that are not the dense rows of an image."""
    texel = format_of(image.format).texel_bytes
    wanted = int(image.width) * image.height * image.depth * texel
    if nbytes != wanted:
        raise InputError(f"the image has {wanted} bytes of texels, {nbytes} bytes of a buffer were given")
    if offset % max(4, texel):
        raise DeviceError(f"texels in a buffer begin at a multiple of {max(4, texel)} bytes, not at {offset}")
    return 0


cdef vk.ImageCopy whole(Image image, uint64_t offset) noexcept:
    cdef vk.ImageCopy out
    out.buffer_offset = offset
    out.width, out.height, out.depth = image.width, image.height, image.depth
    return out


cdef void before_transfer(vk.CommandPool* recorder) noexcept:
    recorder.barrier(STAGE_ALL, MEMORY_WRITE, STAGE_TRANSFER, TRANSFER_READ | TRANSFER_WRITE)


cdef void after_transfer(vk.CommandPool* recorder) noexcept:
    recorder.barrier(
        STAGE_TRANSFER, TRANSFER_WRITE, STAGE_ALL | STAGE_HOST, MEMORY_READ | MEMORY_WRITE | HOST_READ
    )


cdef void enter(vk.CommandPool* recorder, Image image, uint32_t layout, uint32_t access) noexcept:
    recorder.image_barrier(
        image.c_obj.get().number(), image.layout, layout, STAGE_ALL, MEMORY_WRITE, STAGE_TRANSFER, access
    )


cdef void leave(vk.CommandPool* recorder, Image image, uint32_t layout, uint32_t access) noexcept:
    """Back to the layout it had: who knows the image by another name must not be surprised."""
    if image.layout in (LAYOUT_UNDEFINED, LAYOUT_PREINITIALIZED):
        image.layout = LAYOUT_GENERAL
    recorder.image_barrier(
        image.c_obj.get().number(), layout, image.layout, STAGE_TRANSFER, access & TRANSFER_WRITE, STAGE_ALL,
        MEMORY_READ | MEMORY_WRITE,
    )
