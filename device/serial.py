"""Calls to an allocator from outside its heaps, one after another."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .adaptors import AllocatorAdaptor
from .device import Device
from .device_heap import DeviceHeap
from .registry import device_allocator, device_heap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .allocator import DeviceAllocator
    from .resource import Resource

__all__ = ["SerialAllocator"]


class SerialAllocator(AllocatorAdaptor):
    """Passes calls on under the lock of the device's heap, so that two never overlap; for callers without that lock.

    Parameters
    ----------
    inner
        A registered allocator. It stays usable after it was replaced.
    """

    def __init__(self, inner: DeviceAllocator) -> None:
        super().__init__(inner)
        self._heaps: dict[int, DeviceHeap] = {}

    def _heap(self, index: int) -> DeviceHeap:
        heap = self._heaps.get(index)
        if heap is None:
            place = Device(self.device_type, index)
            registered = device_allocator(place) is self.inner
            found = device_heap(place) if registered else DeviceHeap(self.inner, place)
            heap = self._heaps.setdefault(index, found)  # another thread may have been faster: one heap, one lock
        return heap

    @contextmanager
    def _alone(self, index: int) -> Iterator[None]:
        with self._heap(index).exclusive():
            yield

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        with self._alone(index):
            return self.inner.allocate(index, nbytes, alignment)

    def deallocate(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.deallocate`; never waits, because destructors call it at any point."""
        self._heap(index).deallocate(resource)

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """As `DeviceAllocator.copy_to_device`."""
        with self._alone(index):
            self.inner.copy_to_device(index, destination, offset, source)

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """As `DeviceAllocator.copy_to_host`."""
        with self._alone(index):
            self.inner.copy_to_host(index, destination, source, offset)

    def map(self, index: int, resource: Resource) -> int | None:
        """As `DeviceAllocator.map`."""
        with self._alone(index):
            return self.inner.map(index, resource)

    def unmap(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.unmap`."""
        with self._alone(index):
            self.inner.unmap(index, resource)

    def synchronize(self, index: int) -> None:
        """As `DeviceAllocator.synchronize`."""
        with self._alone(index):
            self.inner.synchronize(index)
