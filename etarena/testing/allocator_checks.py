"""What the checks of device allocators share: patterns of bytes, and memory that is given back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..allocator.errors import Error
from ..device.ranges import POINTER_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..device.allocator import DeviceAllocator
    from ..device.resource import Resource

__all__ = ["REFUSALS", "pattern", "read", "start_of", "taken", "write"]

# What an allocator may raise: ours, no memory, a bad argument, or the error of a runtime below it.
REFUSALS = (Error, MemoryError, ValueError, RuntimeError)


def pattern(nbytes: int, seed: int = 0) -> bytes:
    """Bytes that differ between neighbours and seeds, with a period of 251, which divides no power of two."""
    period = bytes((value * 7 + seed * 31 + 1) % 251 for value in range(251))
    return (period * (nbytes // 251 + 1))[:nbytes]


def start_of(resource: Resource) -> int:
    """What alignment is counted from: the address of pointers, the offset inside other handles."""
    return resource.offset + (resource.handle if resource.kind in POINTER_KINDS else 0)


def write(allocator: DeviceAllocator, index: int, resource: Resource, offset: int, content: bytes) -> None:
    """Bring bytes to the device."""
    allocator.copy_to_device(index, resource, offset, memoryview(content))


def read(allocator: DeviceAllocator, index: int, resource: Resource, offset: int, nbytes: int) -> bytes:
    """Bring bytes from the device, into memory that says if it was not written."""
    out = bytearray(b"\xa5" * nbytes)
    allocator.copy_to_host(index, memoryview(out), resource, offset)
    return bytes(out)


@contextmanager
def taken(allocator: DeviceAllocator, index: int, *sizes: int, alignment: int = 64) -> Iterator[list[Resource]]:
    """Blocks of these sizes, given back at the end whatever happens."""
    blocks: list[Resource] = []
    try:
        for nbytes in sizes:
            blocks.append(allocator.allocate(index, nbytes, alignment))
        yield blocks
    finally:
        for block in blocks:
            allocator.deallocate(index, block)
