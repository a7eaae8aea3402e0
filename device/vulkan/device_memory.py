"""Buffers and images of a device, and memory that it shares with the CPU and with other devices."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from ...allocator.errors import DeviceError, InputError
from ..handles import handle_number
from .errors import MissingFeatureError, OutOfMemoryError
from .formats import Format, format_of
from .info import DEVICE_LOCAL, HOST_COHERENT, HOST_VISIBLE
from .memory import Buffer, Image, Memory, external_buffer_features, host_pointer_types
from .requirements import HOST_IMPORT, MEMORY_FD

if TYPE_CHECKING:
    from .core import DeviceCore
    from .info import DeviceInfo
    from .requirements import Enabled
    from .submission import WorkQueue

__all__ = ["BUFFER_USAGE", "IMAGE_USAGE", "DeviceMemory"]

BUFFER_USAGE = 0x1 | 0x2 | 0x20  # TRANSFER_SRC, TRANSFER_DST, STORAGE_BUFFER
IMAGE_USAGE = 0x1 | 0x2 | 0x4 | 0x8  # TRANSFER_SRC, TRANSFER_DST, SAMPLED, STORAGE
STORAGE_IMAGE = 0x8
OPAQUE_FD, HOST_ALLOCATION = 0x1, 0x80  # VkExternalMemoryHandleTypeFlagBits
EXPORTABLE, IMPORTABLE = 2, 4  # VkExternalMemoryFeatureFlagBits


class DeviceMemory:
    """What makes and imports memory: the part of `Device` about it.

    Attributes
    ----------
    largest_allocation : int
        Bytes of the largest buffer that can be made.
    """

    core: DeviceCore
    info: DeviceInfo
    work: WorkQueue
    largest_allocation: int
    _enabled: Enabled

    def buffer(
        self, nbytes: int, *, host_visible: bool = False, usage: int = BUFFER_USAGE, export: bool = False
    ) -> Buffer:
        """Make a buffer in memory of its own.

        Parameters
        ----------
        nbytes
            Size.
        host_visible
            In memory that the CPU can map; otherwise in the device's own.
        usage
            VkBufferUsageFlags; by default for copies and as storage of shaders.
        export
            The memory can be exported by `export_fd`.

        Raises
        ------
        OutOfMemoryError
            The device has no room, or no allocation may be as large.
        """
        self._require_size(nbytes)
        if export:
            self._require_fd(usage, EXPORTABLE)
        buffer = Buffer(self.core, nbytes, usage, external=OPAQUE_FD if export else 0)
        size, _, bits = buffer.requirements
        required, preferred, avoided = (
            (HOST_VISIBLE, HOST_COHERENT, 0) if host_visible else (DEVICE_LOCAL, 0, HOST_VISIBLE)
        )
        self._bind(buffer, size, bits, required, preferred, avoided, export_types=OPAQUE_FD if export else 0)
        return buffer

    def image(self, width: int, height: int, format: str | int, *, depth: int = 1, usage: int | None = None) -> Image:
        """Make an image in the device's memory, with one level and one layer; its layout is UNDEFINED.

        Parameters
        ----------
        width, height, depth
            Texels; three-dimensional if depth is above one.
        format
            A name such as ``"rgba8"`` or a VkFormat, of those in `FORMATS`.
        usage
            VkImageUsageFlags; by default for copies, sampling and, unless it is sRGB, storage.

        Raises
        ------
        OutOfMemoryError
            The device has no room.
        DeviceError
            An unknown format, or an extent or usage that the device does not have for it.
        """
        shape: Format = format_of(format)
        if usage is None:
            usage = IMAGE_USAGE & ~STORAGE_IMAGE if shape.srgb else IMAGE_USAGE
        largest = self.info.limits["maxImageDimension3D" if depth > 1 else "maxImageDimension2D"]
        if not 0 < min(width, height, depth) <= max(width, height, depth) <= largest:
            raise DeviceError(f"an image of {width} x {height} x {depth} texels: each must be 1 to {largest}")
        image = Image(self.core, width, height, depth, shape.number, usage)
        size, _, bits = image.requirements
        self._bind(image, size, bits, 0, DEVICE_LOCAL, HOST_VISIBLE)
        return image

    def import_host(self, address: Any, nbytes: int, *, owner: object = None, usage: int = BUFFER_USAGE) -> Buffer:
        """Let a buffer lie in memory of the CPU, without a copy (VK_EXT_external_memory_host).

        Parameters
        ----------
        address, nbytes
            Both multiples of ``info.limits["minImportedHostPointerAlignment"]``.
        owner
            Kept alive as long as the buffer's memory; None: the caller keeps the memory mapped.
        usage
            VkBufferUsageFlags.

        Raises
        ------
        MissingFeatureError
            The extension is not enabled.
        DeviceError
            Not aligned, not mapped, or memory that the device cannot import.
        """
        self.require_host_import()
        start, step = handle_number(address, "address"), self.info.limits["minImportedHostPointerAlignment"]
        if not start or nbytes <= 0 or start % step or nbytes % step:
            raise DeviceError(f"{nbytes} bytes at 0x{start:x}: this device imports multiples of {step} bytes at such")
        self._require_size(nbytes)
        require_mapped(start, nbytes)
        types = host_pointer_types(self.core, start)
        buffer = Buffer(self.core, nbytes, usage, external=HOST_ALLOCATION)
        size, _, bits = buffer.requirements
        if size > nbytes:
            raise DeviceError(f"a buffer of {nbytes} bytes needs {size} bytes of memory on this device")
        self._bind(
            buffer,
            nbytes,
            bits & types,
            0,
            HOST_VISIBLE,
            0,
            import_type=HOST_ALLOCATION,
            host_pointer=start,
            owner=owner,
        )
        return buffer

    def export_fd(self, buffer: Buffer) -> int:
        """A new file descriptor of a buffer's memory, which the caller closes (VK_KHR_external_memory_fd).

        Raises
        ------
        DeviceError
            The buffer was made without ``export=True``.
        """
        self._enabled.require_extension(MEMORY_FD, "export of memory as a file descriptor")
        if buffer.memory is None or not buffer.memory.export_types & OPAQUE_FD:
            raise DeviceError("the buffer's memory cannot be exported: make it with buffer(..., export=True)")
        return buffer.memory.export_fd(OPAQUE_FD)

    def import_fd(self, fd: int, nbytes: int, *, usage: int = BUFFER_USAGE) -> Buffer:
        """A buffer in the memory of a file descriptor, as `export_fd` gives it.

        Parameters
        ----------
        fd
            Of a buffer with the same `nbytes` and `usage`, of a device with the same ``device_uuid`` and
            ``driver_uuid``. It stays the caller's.
        nbytes, usage
            As for `buffer`.
        """
        self._require_size(nbytes)
        self._require_fd(usage, IMPORTABLE)
        buffer = Buffer(self.core, nbytes, usage, external=OPAQUE_FD)
        size, _, bits = buffer.requirements
        require_file_size(fd, size)
        self._bind(buffer, size, bits, DEVICE_LOCAL, 0, HOST_VISIBLE, import_type=OPAQUE_FD, fd=fd)
        return buffer

    def require_host_import(self) -> None:
        """Refuse if memory of the CPU cannot be imported."""
        self._enabled.require_extension(HOST_IMPORT, "import of memory of the CPU")

    def _require_fd(self, usage: int, ability: int) -> None:
        verb = "export" if ability == EXPORTABLE else "import"
        self._enabled.require_extension(MEMORY_FD, f"{verb} of memory as a file descriptor")
        if not external_buffer_features(self.core, usage, OPAQUE_FD) & ability:
            raise MissingFeatureError(
                f"{self.info.name} cannot {verb} buffers of usage 0x{usage:x} as file descriptors"
            )

    def _require_size(self, nbytes: int) -> None:
        if nbytes <= 0:
            raise InputError(f"a Vulkan buffer of {nbytes} bytes was asked for")
        if nbytes > self.largest_allocation:
            raise OutOfMemoryError(
                f"{nbytes} bytes are more than the {self.largest_allocation} of the largest allocation of "
                f"{self.info.name}",
                code=-2,
                code_name="VK_ERROR_OUT_OF_DEVICE_MEMORY",
                call="vkAllocateMemory",
            )

    def _bind(
        self, what: Buffer | Image, size: int, bits: int, required: int, preferred: int, avoided: int, **source: Any
    ) -> None:
        """Give a buffer or an image memory of its own."""
        kind = self.info.memory_type(bits, required, preferred, avoided)
        if kind is None and not source.get("import_type"):
            kind = self.info.memory_type(bits, required & HOST_VISIBLE)
        if kind is None:
            raise MissingFeatureError(
                f"{self.info.name} has no memory of the kind that this {type(what).__name__} needs"
            )
        self.work.collect()
        what.bind(Memory(self.core, size, kind.index, properties=kind.flags, **source))


def require_mapped(address: int, nbytes: int) -> None:
    """Refuse addresses that the process has not mapped: drivers would fail later, or crash."""
    page = os.sysconf("SC_PAGESIZE")
    libc = ctypes.CDLL(None, use_errno=True)
    start = address // page * page
    count = -(-(address + nbytes - start) // page)
    there = (ctypes.c_ubyte * count)()
    if libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(count * page), there) != 0:
        raise DeviceError(f"{nbytes} bytes at 0x{address:x} are not mapped in this process")


def require_file_size(fd: int, nbytes: int) -> None:
    """Refuse file descriptors whose memory is known to be too small."""
    try:
        found = os.fstat(fd).st_size
    except OSError as error:
        raise DeviceError(f"{fd} is no open file descriptor") from error
    if 0 < found < nbytes:
        raise DeviceError(f"file descriptor {fd} has {found} bytes, the buffer needs {nbytes}")
