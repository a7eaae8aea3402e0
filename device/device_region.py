"""The part of a device's memory that the activations of one running method take, as the arena's activation region."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..allocator.errors import DeviceError
from .registry import device_heap

if TYPE_CHECKING:
    from ..allocator.arena import Arena
    from .device import Device
    from .device_heap import DeviceHeap
    from .resource import Resource

__all__ = ["DeviceRegion", "region_of"]


class DeviceRegion:
    """Memory of one device for the methods of one arena, which run in turns: it costs the largest plan, not the sum.

    Parameters
    ----------
    device
        Whose memory.
    later
        Ask for the device's allocator when memory is needed for the first time.

    Raises
    ------
    DeviceError
        No allocator is registered for the device.
    """

    def __init__(self, device: Device, *, later: bool = False) -> None:
        self.device = device
        self._heap = None if later else device_heap(device)
        self._block: Resource | None = None

    @property
    def heap(self) -> DeviceHeap:
        """Where the memory comes from; stays the same if another allocator is registered later."""
        if self._heap is None:
            self._heap = device_heap(self.device)
        return self._heap

    def ensure(self, nbytes: int) -> Resource:
        """Memory of at least so many bytes; what was in it is lost when it grows.

        Raises
        ------
        ArenaFullError, DeviceError
            The device has no room.
        """
        if self._block is None or self._block.nbytes < nbytes:
            self._block = None  # first: old and new need not fit together
            self._block = self.heap.allocate(nbytes, self.heap.capabilities.alignment)
        return self._block

    def trim(self) -> None:
        """Give the memory back."""
        self._block = None
        if self._heap is not None:
            self._heap.trim()


_regions: WeakKeyDictionary[Arena, dict[Device, DeviceRegion]] = WeakKeyDictionary()


def region_of(arena: Arena, device: Device, *, later: bool = False) -> DeviceRegion:
    """The region that the methods of an arena share on a device.

    It is another one after another allocator was registered, and stays after the allocator was unregistered.

    Parameters
    ----------
    arena, device
        Whose methods, and where.
    later
        Nothing lies there yet: without an allocator, a region of one's own that asks for one when something does.

    Raises
    ------
    DeviceError
        No allocator was ever registered for the device.
    """
    regions = _regions.setdefault(arena, {})
    found = regions.get(device)
    try:
        if found is None or found.heap is not device_heap(device):
            found = regions[device] = DeviceRegion(device)
    except DeviceError:
        if found is None and later:
            return DeviceRegion(device, later=True)
        if found is None:
            raise
    return found
