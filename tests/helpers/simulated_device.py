"""Devices made of host memory behind handles that nobody may touch: what reads a handle as an address crashes."""

import ctypes
import mmap

from etarena import Capabilities, DeviceAllocator, DeviceError, Resource
from etarena.device.kinds import FIRST_CUSTOM_KIND

__all__ = ["KIND", "SimulatedDevice", "guard_page"]

KIND = FIRST_CUSTOM_KIND + 1
_pages: list[mmap.mmap] = []


def guard_page() -> int:
    """Address of a page without access, mapped until the process ends."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, 0) == 0
    _pages.append(page)
    return address


class SimulatedDevice(DeviceAllocator):
    """A device whose memory the CPU cannot see. Handles are addresses inside a page without access."""

    device_type = 64
    device_count = 2
    block_bytes = 1 << 16
    alignment = 256
    total = 32 << 20

    def __init__(self) -> None:
        self.page = guard_page()
        self.memory: list[dict[int, bytearray]] = [{} for _ in range(self.device_count)]
        self.made = 0

    def capabilities(self, index: int) -> Capabilities:
        return Capabilities(alignment=self.alignment, total_bytes=self.total)

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        self.require_index(index)
        if alignment <= 0 or alignment & (alignment - 1):
            raise ValueError(f"alignment {alignment} is no power of two")
        if nbytes > self.total - sum(map(len, self.memory[index].values())):
            raise MemoryError(f"no room for {nbytes} bytes")
        self.made += 1
        handle = self.page + self.made % mmap.PAGESIZE
        while handle in self.memory[index]:
            handle += 1
        self.memory[index][handle] = bytearray(nbytes)
        return Resource.custom(KIND, handle, nbytes)

    def deallocate(self, index: int, resource: Resource) -> None:
        self.bytes_of(index, resource, 0, 0)
        del self.memory[index][resource.handle]

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        self.bytes_of(index, destination, offset, source.nbytes)[:] = source.cast("B")

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        destination.cast("B")[:] = self.bytes_of(index, source, offset, destination.nbytes)

    def bytes_of(self, index: int, resource: Resource, offset: int, nbytes: int) -> memoryview:
        self.require_index(index)
        if resource.kind != KIND or resource.handle not in self.memory[index]:
            raise DeviceError(f"{resource!r} is no memory of this device")
        resource.part(offset, nbytes)
        start = resource.offset + offset
        return memoryview(self.memory[index][resource.handle])[start : start + nbytes]

    def require_index(self, index: int) -> None:
        if not 0 <= index < self.device_count:
            raise DeviceError(f"there is no device {index}")

    @property
    def live(self) -> int:
        return sum(len(block) for memory in self.memory for block in memory.values())
