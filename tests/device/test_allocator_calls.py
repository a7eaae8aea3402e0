"""Calls to an allocator that holds a lock of its own, and what the cycle collector and other threads do meanwhile."""

import gc
import threading
from collections.abc import Callable, Iterator

import pytest

import etarena
from etarena import ETensor, Resource
from etarena.device.adaptors import LimitAllocator, TrackAllocator
from etarena.device.registry import device_heap
from etarena.device.serial import SerialAllocator

from ..helpers.simulated_device import SimulatedDevice


class Locking(SimulatedDevice):
    """Has one lock for both of its devices, and does something while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.during: Callable[[], object] = int

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        with self.lock:
            self.during()
            return super().allocate(index, nbytes, alignment)

    def deallocate(self, index: int, resource: Resource) -> None:
        with self.lock:
            super().deallocate(index, resource)


@pytest.fixture
def device() -> Iterator[Locking]:
    allocator = Locking()
    etarena.register_device_allocator(allocator)
    yield allocator
    etarena.unregister_device_allocator("custom64")


def in_time(work: Callable[[], object]) -> None:
    """Do something in a thread that may hang."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def large(device: str) -> ETensor:
    """A tensor with a block of its own, which is given back with it once the heap is trimmed."""
    return ETensor.empty("uint8", (SimulatedDevice.block_bytes,), device)


def forgotten(*tensors: ETensor) -> None:
    """Leave tensors to the cycle collector."""
    cycle: list[object] = [tensors]
    cycle.append(cycle)


@pytest.mark.parametrize("other", ["custom64:0", "custom64:1"])
def test_tensors_are_given_back_after_the_call(device: Locking, other: str) -> None:
    adapted = LimitAllocator(TrackAllocator(device), 1 << 20)
    etarena.register_device_allocator(adapted, replace=True)
    forgotten(large(other))
    device_heap(other).retire()  # so that a block goes with its last tensor
    device.during = gc.collect
    in_time(lambda: large("custom64:0"))
    assert device_heap(other).stats.live_bytes == 0
    assert adapted.live == device.live


def test_memory_of_the_runtime_is_given_back_after_the_call(device: Locking) -> None:
    """As the finalizer of a method's planned memory does, whichever call it interrupts."""
    serial = SerialAllocator(device)
    resource = serial.allocate(0, 64, 64)
    device.during = lambda: serial.deallocate(0, resource)
    in_time(lambda: large("custom64:0"))
    assert device.live == SimulatedDevice.block_bytes


def test_a_call_that_fails_gives_back_what_was_dropped_in_it(device: Locking) -> None:
    tensor = [large("custom64:1")]

    def fail() -> None:
        tensor.clear()
        raise MemoryError

    device.during = fail
    with pytest.raises(etarena.ArenaFullError):
        large("custom64:0")
    device.during = int
    assert device_heap("custom64:1").stats.live_allocations == 0


def test_statistics_can_be_asked_while_memory_is_collected(device: Locking) -> None:
    tracker = TrackAllocator(device)

    def give_back() -> None:
        with tracker._lock:  # as `stats` holds it when the collector comes
            tracker.deallocate(0, tracker.allocate(0, 64, 64))

    in_time(give_back)
    assert tracker.stats.live_blocks == 0


def test_an_allocator_can_ask_for_what_is_registered_while_it_is_unregistered(device: Locking) -> None:
    inside, asks = threading.Event(), threading.Event()

    def ask() -> None:
        inside.set()
        asks.wait(30)
        etarena.device_allocator("cpu")

    device.during = ask
    threads = [
        threading.Thread(target=work, daemon=True)
        for work in (lambda: large("custom64:0"), lambda: etarena.unregister_device_allocator(device))
    ]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    threads[1].join(0.2)  # it waits for the call
    asks.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    etarena.register_device_allocator(device)
