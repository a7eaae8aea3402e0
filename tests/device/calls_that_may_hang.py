"""Calls to an allocator that holds a lock of its own, and what the cycle collector and other threads do meanwhile.

Run by `test_allocator_calls.py` in a process of its own.
"""

import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest

import etarena
from etarena import Capabilities, ETensor, Resource
from etarena.device.adaptors import LimitAllocator, TrackAllocator
from etarena.device.registry import device_heap
from etarena.device.serial import SerialAllocator

from ..helpers.simulated_device import SimulatedDevice

BLOCK = SimulatedDevice.block_bytes


class Locking(SimulatedDevice):
    """Has one lock for both of its devices, and does something while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.during: Callable[[], object] = int

    def capabilities(self, index: int) -> Capabilities:
        with self.lock:
            self.during()
            return super().capabilities(index)

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        with self.lock:
            self.during()
            return super().allocate(index, nbytes, alignment)

    def deallocate(self, index: int, resource: Resource) -> None:
        with self.lock:
            super().deallocate(index, resource)


class Stubborn(SimulatedDevice):
    """Frees nothing."""

    def deallocate(self, index: int, resource: Resource) -> None:
        raise OSError("mine")


@pytest.fixture
def device() -> Iterator[Locking]:
    allocator = Locking()
    etarena.register_device_allocator(allocator)
    yield allocator
    etarena.unregister_device_allocator("custom64")


@pytest.fixture
def stubborn() -> Iterator[list[ETensor]]:
    """A tensor whose memory cannot be given back, and is not kept either."""
    etarena.register_device_allocator(Stubborn())
    held = [large("custom64")]
    device_heap("custom64").retire()
    yield held
    held.clear()
    etarena.unregister_device_allocator("custom64")


def large(device: str) -> ETensor:
    """A tensor with a block of its own, which is given back with it once the heap is trimmed."""
    return ETensor.empty("uint8", (BLOCK,), device)


def forgotten(*tensors: ETensor) -> None:
    """Leave tensors to the cycle collector."""
    cycle: list[object] = [tensors]
    cycle.append(cycle)


def together(*works: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("other", ["custom64:0", "custom64:1"])
def test_tensors_are_given_back_after_the_call(device: Locking, other: str) -> None:
    adapted = LimitAllocator(TrackAllocator(device), 1 << 20)
    etarena.register_device_allocator(adapted, replace=True)
    forgotten(large(other))
    device_heap(other).retire()  # so that a block goes with its last tensor
    held = [large("custom64:0")]
    device.during = gc.collect
    held.append(large("custom64:0"))
    assert adapted.live == device.live == 2 * BLOCK
    assert device_heap(other).stats.live_allocations == (2 if other == "custom64:0" else 0)


def test_memory_of_the_runtime_is_given_back_after_the_call(device: Locking) -> None:
    """As the finalizer of a method's planned memory does, whichever call it interrupts."""
    serial = SerialAllocator(device)
    resource = serial.allocate(0, 64, 64)
    device.during = lambda: serial.deallocate(0, resource)
    large("custom64:0")
    assert device.live == BLOCK


@pytest.mark.parametrize("call", ["allocate", "capabilities"])
def test_a_call_that_fails_gives_back_what_was_dropped_in_it(device: Locking, call: str) -> None:
    tensor = [large("custom64:1")]
    device_heap("custom64:1").retire()
    if call == "allocate":
        device_heap("custom64:0")

    def fail() -> None:
        tensor.clear()
        raise MemoryError

    device.during = fail
    with pytest.raises(etarena.ArenaFullError, match=call):
        large("custom64:0")
    assert device.live == 0


def test_statistics_can_be_asked_while_memory_is_collected(device: Locking) -> None:
    tracker = TrackAllocator(device)
    with tracker._lock:  # as `stats` holds it when the collector comes
        tracker.deallocate(0, tracker.allocate(0, 64, 64))
    assert tracker.stats.live_blocks == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda: etarena.unregister_device_allocator("custom64"),
        lambda: device_heap("custom64:1"),
    ],
    ids=["unregister", "first use"],
)
def test_an_allocator_can_ask_for_what_is_registered(device: Locking, change: Callable[[], object]) -> None:
    inside, found = threading.Event(), []
    device_heap("custom64:0")

    def ask() -> None:
        device.during = int
        inside.set()
        other.join(0.2)  # it waits for this call
        found.append(etarena.device_allocator("cpu"))

    def meanwhile() -> None:
        inside.wait()
        change()

    other = threading.Thread(target=meanwhile)
    other.start()
    device.during = ask
    large("custom64:0")
    other.join()
    assert found == [etarena.device_allocator("cpu")]
    etarena.register_device_allocator(device, replace=True)


def test_a_device_is_asked_for_its_capabilities_once(device: Locking) -> None:
    asked, heaps = [], []
    device.during = lambda: asked.append(threading.Event().wait(0.05))
    together(*[lambda: heaps.append(device_heap("custom64"))] * 4)
    assert len(asked) == 1
    assert len(set(map(id, heaps))) == 1


def test_an_allocator_replaced_while_it_describes_a_device_gets_no_heap(device: Locking) -> None:
    later = SimulatedDevice()
    device.during = lambda: etarena.register_device_allocator(later, replace=True)
    assert device_heap("custom64").allocator is later
    assert device_heap("custom64") is device_heap("custom64")


def test_memory_freed_before_makes_room(device: Locking) -> None:
    """Whoever else holds the lock when it is freed, and even if that thread has not freed it yet."""
    limited = etarena.register_device_allocator(LimitAllocator(device, BLOCK), replace=True)
    heap, serial = device_heap("custom64"), SerialAllocator(limited)
    for _ in range(2):
        resource = serial.allocate(0, BLOCK, 64)
        with heap._lock:
            serial.deallocate(0, resource)
            assert device.live == BLOCK
    assert large("custom64").nbytes == BLOCK


def test_a_serial_allocator_has_one_lock_for_each_device(device: Locking) -> None:
    found: list[object] = []

    class Describes(SimulatedDevice):
        def capabilities(self, index: int) -> Capabilities:
            if not found:
                found.append(None)
                found.append(serial._heap(index))  # as another thread would at this moment
            return super().capabilities(index)

    serial = SerialAllocator(Describes())
    assert serial._heap(0) is found[1]


def test_a_hook_for_warnings_can_ask_for_statistics(stubborn: list[ETensor], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda *_: seen.append(device_heap("custom64").stats.live_bytes))
        stubborn.clear()
    assert seen == [0]


def test_a_warning_made_an_error_reaches_nobody_else(stubborn: list[ETensor], monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: printed.append(found.exc_type))
    heap = device_heap("custom64")
    with heap._lock:  # another thread's call
        stubborn.clear()
    tensor = large("custom64")
    assert (printed, heap.stats.live_allocations) == ([ResourceWarning], 1)
    del tensor
    assert (printed, heap.stats.live_allocations) == ([ResourceWarning] * 2, 0)
