"""The allocator of the CPU: an arena's heap."""

from __future__ import annotations

from ..allocator.arena import Arena, Block
from ..allocator.errors import DeviceError
from .allocator import DeviceAllocator
from .capabilities import Capabilities
from .device import DeviceType
from .host_memory import host_bytes
from .kinds import ResourceKind
from .resource import Resource

__all__ = ["CpuAllocator"]


class CpuAllocator(DeviceAllocator):
    """CPU memory from the heap of an arena.

    Parameters
    ----------
    arena
        Where from; by default one of its own, of 64 GiB of address space.
    """

    device_type = DeviceType.CPU

    def __init__(self, arena: Arena | None = None) -> None:
        self._arena = arena
        self._blocks: dict[int, Block] = {}

    @property
    def arena(self) -> Arena:
        """Where the memory comes from; made when it is first needed."""
        if self._arena is None:
            self._arena = Arena(name="cpu tensors")
        return self._arena

    def capabilities(self, index: int) -> Capabilities:
        """Memory that the CPU sees, aligned to 64 bytes."""
        return Capabilities(
            import_kinds=frozenset({ResourceKind.HOST}),
            import_alignment=1,
            host_visible=True,
            host_coherent=True,
            unified=True,
        )

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """Take a block of the arena."""
        if index != 0:
            raise DeviceError(f"there is one CPU, not a number {index}")
        block = self.arena.alloc(nbytes, alignment)
        self._blocks[block.address] = block
        return Resource.host(block.address, nbytes)

    def deallocate(self, index: int, resource: Resource) -> None:
        """Give a block back; `DeviceError` if it is none of this allocator's."""
        block = self._blocks.pop(resource.handle, None)
        if block is None:
            raise DeviceError(f"{resource!r} was freed before, or is no memory of {self!r}")
        block.free()

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """Copy bytes."""
        host_bytes(destination, offset, source.nbytes)[:] = source.cast("B")

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """Copy bytes."""
        destination.cast("B")[:] = host_bytes(source, offset, destination.nbytes)

    def map(self, index: int, resource: Resource) -> int:
        """The address itself."""
        return resource.handle + resource.offset
