"""Which allocator provides the memory of which type of device."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from ..allocator.errors import DeviceError
from .allocator import DeviceAllocator
from .cpu_allocator import CpuAllocator
from .device import Device, DeviceType
from .device_heap import DeviceHeap, free_dropped, in_a_call
from .tables import as_allocator

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "device_allocator",
    "device_heap",
    "on_registration",
    "register_device_allocator",
    "synchronize",
    "unregister_device_allocator",
]

_lock = threading.RLock()
_allocators: dict[int, DeviceAllocator] = {int(DeviceType.CPU): CpuAllocator()}
_heaps: dict[Device, DeviceHeap] = {}
_making: dict[Device, threading.RLock] = {}  # per device: held while its heap is made, so that nobody makes a second
_listeners: list[Callable[[int, DeviceAllocator | None], None]] = []


def register_device_allocator(allocator: Any, *, replace: bool = False) -> DeviceAllocator:
    """Let an allocator provide the memory of its type of device.

    Parameters
    ----------
    allocator
        A `DeviceAllocator` or a subclass of it, or a C table `etarena_device_allocator`: its address, a ctypes or cffi
        pointer, or a capsule of that name. The table must outlive its registration and all memory taken from it.
    replace
        Take the place of the one that is registered. Tensors keep their memory and return it to where it came from.

    Returns
    -------
    DeviceAllocator
        What is registered now.

    Raises
    ------
    DeviceError
        The type has an allocator already, or the allocator describes itself wrongly.
    """
    found = as_allocator(allocator)
    kind = _described(found)
    former: list[DeviceHeap] = []
    try:
        with _lock:
            if kind in _allocators and not replace and not _is_built_in(kind):
                raise DeviceError(
                    f"{Device(kind)} has the allocator {_allocators[kind]!r}: unregister it first, or pass replace=True"
                )
            _set(kind, found, former)
    finally:
        _retire(former)
    return found


def unregister_device_allocator(which: Any) -> None:
    """Forget the allocator of a type of device. Tensors keep their memory and return it to where it came from.

    Parameters
    ----------
    which
        A device, a type or its name, or the allocator itself. The CPU gets its own allocator back.

    Raises
    ------
    DeviceError
        None is registered, or another one than the one given.
    """
    given = which if isinstance(which, DeviceAllocator) else None
    kind = int(Device(which if given is None else given.device_type).type)
    former: list[DeviceHeap] = []
    try:
        with _lock:
            if kind not in _allocators or _is_built_in(kind) or (given is not None and _allocators[kind] is not given):
                raise DeviceError(f"{given or Device(kind)!r} is not registered")
            _set(kind, CpuAllocator() if kind == DeviceType.CPU else None, former)
    finally:
        _retire(former)


def device_allocator(type: Any) -> DeviceAllocator:
    """The allocator of a type of device.

    Raises
    ------
    DeviceError
        None is registered.
    """
    kind = int(Device(type).type)
    with _lock:
        if kind not in _allocators:
            raise DeviceError(
                f"no allocator is registered for {Device(kind)}: call etarena.register_device_allocator first"
            )
        return _allocators[kind]


def device_heap(device: Any) -> DeviceHeap:
    """The memory of one device.

    Raises
    ------
    DeviceError
        No allocator is registered for it, or there are not as many devices.
    """
    place = Device(device)
    with _lock:
        heap = _heaps.get(place)
        if heap is not None:
            return heap
        making = _making.setdefault(place, threading.RLock())
    while heap is None:
        try:
            with in_a_call(), making:
                heap = _heaps.get(place) or _made(place)
        finally:
            free_dropped()
    return heap


def _made(place: Device) -> DeviceHeap | None:
    """A new heap, made without the registry's lock: the allocator's calls take locks of their own.

    None if another allocator was registered meanwhile.
    """
    allocator = device_allocator(place)
    if place.index >= allocator.device_count:
        raise DeviceError(f"there is no {place}: {allocator!r} has {allocator.device_count} devices")
    heap = DeviceHeap(allocator, place)
    with _lock:
        return _heaps.setdefault(place, heap) if _allocators.get(int(place.type)) is allocator else None


def synchronize(device: Any) -> None:
    """Wait until a device has done all it was told, if anybody registered an allocator for it."""
    with _lock:
        known = int(Device(device).type) in _allocators
    if known:
        device_heap(device).synchronize()


def on_registration(listener: Callable[[int, DeviceAllocator | None], None]) -> None:
    """Call a function now and from now on with each type of device and its allocator; None when it is gone."""
    with _lock:
        _listeners.append(listener)
        for kind, allocator in _allocators.items():
            listener(kind, allocator)


def _set(kind: int, allocator: DeviceAllocator | None, former: list[DeviceHeap]) -> None:
    """Adds the heaps of the allocator before to `former`, also if a listener raises."""
    if allocator is None:
        del _allocators[kind]
    else:
        _allocators[kind] = allocator
    former += [_heaps.pop(device) for device in list(_heaps) if device.type == kind]
    for listener in _listeners:
        listener(kind, allocator)


def _retire(former: list[DeviceHeap]) -> None:
    """Without the lock: a heap waits for calls to its allocator, which may ask for what is registered."""
    for heap in former:
        heap.retire()


def _is_built_in(kind: int) -> bool:
    return kind == DeviceType.CPU and type(_allocators[kind]) is CpuAllocator


def _renew_lock() -> None:
    """In a forked child no other thread lives on that could release the lock."""
    global _lock
    _lock = threading.RLock()
    _making.clear()


os.register_at_fork(after_in_child=_renew_lock)


def _described(allocator: DeviceAllocator) -> int:
    """Type of an allocator that says what it must about itself."""
    if not hasattr(allocator, "device_type"):
        raise DeviceError(f"{allocator!r} does not say its device_type")
    count = allocator.device_count
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= 128:
        raise DeviceError(f"device_count={count!r} of {allocator!r}: expected 1 to 128")
    return int(Device(allocator.device_type).type)
