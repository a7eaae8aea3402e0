"""What whoever provides a device's memory implements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .capabilities import Capabilities
    from .device import DeviceType
    from .resource import Resource

__all__ = ["DeviceAllocator"]


class DeviceAllocator:
    """Memory of all devices of one type. Subclass it, or fill an `etarena_device_allocator` in C.

    Attributes
    ----------
    device_type : DeviceType, str or int
        What kind of device; 64 to 127 are anybody's.
    device_count : int
        How many there are: indices are 0 to ``device_count - 1``.
    block_bytes : int
        Memory that the CPU cannot see is taken in blocks of at least this size; 16 MiB by default.

    Notes
    -----
    Methods are called from any thread, but never two at once for the same index. Exceptions reach whoever asked, as
    the cause of a `DeviceError` that names the allocator; `MemoryError` becomes `ArenaFullError`.
    """

    device_type: DeviceType | str | int
    device_count: int = 1
    block_bytes: int = 16 << 20

    def capabilities(self, index: int) -> Capabilities:
        """What the memory of a device can do. Asked once."""
        raise NotImplementedError

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """Take at least `nbytes` bytes; address and offset of what is returned are multiples of `alignment`.

        Zero bytes give a resource too, which can be given back. No room is a `MemoryError`.
        """
        raise NotImplementedError

    def deallocate(self, index: int, resource: Resource) -> None:
        """Take back what `allocate` returned: the same object."""
        raise NotImplementedError

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """Write all bytes of `source` from byte `offset` of the resource on. Done when it returns."""
        raise NotImplementedError

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """Fill `destination` with the bytes from byte `offset` of the resource on. Done when it returns."""
        raise NotImplementedError

    def map(self, index: int, resource: Resource) -> int | None:
        """Address at which the CPU can use the resource until `unmap`; None, the default, if it cannot."""
        return None

    def unmap(self, index: int, resource: Resource) -> None:
        """End what `map` began: what the CPU wrote is the device's now."""

    def synchronize(self, index: int) -> None:
        """Wait until the device has done all it was told."""
