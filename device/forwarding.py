"""An allocator that asks another one: what adaptors and C tables have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .allocator import DeviceAllocator

if TYPE_CHECKING:
    from .capabilities import Capabilities
    from .resource import Resource
    from .table import AllocatorTable

__all__ = ["ForwardingAllocator"]


class ForwardingAllocator(DeviceAllocator):
    """Passes everything on.

    Parameters
    ----------
    inner : DeviceAllocator or AllocatorTable
        What is asked.
    """

    inner: DeviceAllocator | AllocatorTable

    def __init__(self, inner: DeviceAllocator | AllocatorTable) -> None:
        self.inner = inner
        self.device_type = inner.device_type
        self.device_count = inner.device_count

    def capabilities(self, index: int) -> Capabilities:
        """As `DeviceAllocator.capabilities`."""
        return self.inner.capabilities(index)

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        return self.inner.allocate(index, nbytes, alignment)

    def deallocate(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.deallocate`."""
        self.inner.deallocate(index, resource)

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """As `DeviceAllocator.copy_to_device`."""
        self.inner.copy_to_device(index, destination, offset, source)

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """As `DeviceAllocator.copy_to_host`."""
        self.inner.copy_to_host(index, destination, source, offset)

    def map(self, index: int, resource: Resource) -> int | None:
        """As `DeviceAllocator.map`."""
        return self.inner.map(index, resource)

    def unmap(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.unmap`."""
        self.inner.unmap(index, resource)

    def synchronize(self, index: int) -> None:
        """As `DeviceAllocator.synchronize`."""
        self.inner.synchronize(index)
