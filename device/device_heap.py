"""Memory of one device: checked calls to its allocator, and blocks divided by an offset heap."""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..allocator.errors import ArenaFullError, DeviceError, Error
from ..allocator.offset_heap import OffsetHeap
from .capabilities import Capabilities
from .kinds import kind_name
from .ranges import POINTER_KINDS, TakenRanges
from .resource import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .allocator import DeviceAllocator
    from .device import Device

__all__ = ["Allocation", "DeviceHeap", "DeviceHeapStats"]

SMALLEST_STEP = 64  # bytes: offsets inside a block


@dataclass(frozen=True)
class DeviceHeapStats:
    """What is held of one device; sizes in bytes."""

    live_bytes: int
    peak_bytes: int
    live_allocations: int
    blocks: int
    block_bytes: int


class Calls(threading.local):
    """Calls to allocators that a thread is in, and heaps that have something to do once it is out of all of them."""

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: list[DeviceHeap] = []


_calls = Calls()


@contextmanager
def in_a_call() -> Iterator[None]:
    """Around a call: what the cycle collector drops meanwhile must not call an allocator, which may hold a lock."""
    _calls.depth += 1
    try:
        yield
    finally:
        _calls.depth -= 1


def free_dropped() -> None:
    """Free what was dropped in the middle of this thread's calls to allocators, once it is out of all of them."""
    while _calls.waiting and not _calls.depth:
        _calls.waiting.pop()._free_dropped()


class LostMemory:
    """Warns when it is dropped.

    The exception that a filter may make of the warning is printed, as those of all destructors are: it must not reach
    a caller that has nothing to do with the memory.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __del__(self) -> None:
        warnings.warn(self.text, ResourceWarning, stacklevel=2)


class Block:
    """What the allocator gave in one piece; with a heap if several allocations share it."""

    def __init__(self, resource: Resource, heap: OffsetHeap | None) -> None:
        self.resource, self.heap = resource, heap
        self.users = 0


class Allocation:
    """Memory of one tensor, given back to the allocator it came from when the last reference is dropped."""

    def __init__(self, heap: DeviceHeap, block: Block, offset: int, nbytes: int) -> None:
        self.heap, self.block, self.offset, self.nbytes = heap, block, offset, nbytes

    def __del__(self) -> None:
        heap = getattr(self, "heap", None)
        if heap is not None:
            heap.give_back(self.block, self.offset, self.nbytes)


class DeviceHeap:
    """Memory of one device.

    Parameters
    ----------
    allocator
        Where from.
    device
        Whose.

    Notes
    -----
    Memory that the CPU cannot touch is taken in blocks, which an `OffsetHeap` divides: an arena in offset mode. All
    calls to the allocator are made under one lock. Tensors dropped by the cycle collector in the middle of a call to
    any allocator are given back after it.
    """

    def __init__(self, allocator: DeviceAllocator, device: Device) -> None:
        self.allocator, self.device = allocator, device
        self._blocks: dict[int, Block] = {}  # by id
        self._taken = TakenRanges()
        self._dropped: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._retired = False
        self._live = self._peak = self._count = 0
        self._vk_device = 0
        try:
            with in_a_call(), self._called("capabilities"):
                self.capabilities = allocator.capabilities(device.index)
        finally:
            self._drain()
        if not isinstance(self.capabilities, Capabilities):
            raise DeviceError(f"capabilities of {allocator!r} gave a {type(self.capabilities).__name__}")

    def __repr__(self) -> str:
        return f"<DeviceHeap of {self.device} live={self._live}>"

    @property
    def stats(self) -> DeviceHeapStats:
        """What is held now."""
        with self._locked():
            block_bytes = sum(block.resource.nbytes for block in self._blocks.values())
            return DeviceHeapStats(self._live, self._peak, self._count, len(self._blocks), block_bytes)

    def allocate(self, nbytes: int, alignment: int = 0) -> Resource:
        """Take memory; it is given back when the resource is dropped.

        Parameters
        ----------
        nbytes
            Size; zero gives memory of its own too.
        alignment
            If more is needed than the device's own.

        Raises
        ------
        ArenaFullError
            The allocator has no room, or the size is beyond its largest allocation.
        DeviceError
            The allocator failed, or returned what it must not.
        """
        alignment = max(alignment, self.capabilities.alignment, 1)
        size = max(nbytes, 1)
        limit = self.capabilities.max_allocation
        if limit and size > limit:
            raise ArenaFullError(f"{self.device}: {nbytes} bytes are more than the {limit} of its largest allocation")
        self._require_process()
        with self._locked():
            block, offset = self._place(size, alignment)
            block.users += 1
            self._live += size
            self._count += 1
            self._peak = max(self._peak, self._live)
        allocation = Allocation(self, block, offset, size)
        return block.resource.part(offset, nbytes, allocation)

    def give_back(self, block: Block, offset: int, nbytes: int) -> None:
        """Free an allocation. Called from destructors, in any thread and at any point: it never waits."""
        self._soon(partial(self._free, block, offset, nbytes))

    def deallocate(self, resource: Resource) -> None:
        """Give memory that was not allocated by this heap back to the allocator; never waits, as `give_back`."""
        self._soon(partial(self._deallocate, resource))

    def trim(self) -> int:
        """Give blocks without users back to the allocator; the bytes that were."""
        with self._locked():
            return sum(self._release(block) for block in list(self._blocks.values()) if block.users == 0)

    def retire(self) -> None:
        """Keep no memory from now on but what tensors hold: the allocator was unregistered."""
        self._retired = True
        try:
            self.trim()
        except Error as error:
            self._warn([error])

    def write(self, resource: Resource, offset: int, source: memoryview) -> None:
        """Bring bytes to the device; `DeviceError` if they are not inside the resource."""
        self._require_transfer(resource)
        resource.part(offset, source.nbytes)
        with self._locked(), self._called(f"copy_to_device of {source.nbytes} bytes"):
            self.allocator.copy_to_device(self.device.index, resource, offset, source)

    def read(self, destination: memoryview, resource: Resource, offset: int) -> None:
        """Bring bytes from the device; `DeviceError` if they are not inside the resource."""
        self._require_transfer(resource)
        resource.part(offset, destination.nbytes)
        with self._locked(), self._called(f"copy_to_host of {destination.nbytes} bytes"):
            self.allocator.copy_to_host(self.device.index, destination, resource, offset)

    def map(self, resource: Resource) -> int | None:
        """Address at which the CPU sees the resource; None if it cannot."""
        self._require_transfer(resource)
        with self._locked(), self._called("map"):
            return self.allocator.map(self.device.index, resource)

    def unmap(self, resource: Resource) -> None:
        """End what `map` began."""
        with self._locked(), self._called("unmap"):
            self.allocator.unmap(self.device.index, resource)

    def synchronize(self) -> None:
        """Wait until the device has done all it was told."""
        with self._locked(), self._called("synchronize"):
            self.allocator.synchronize(self.device.index)

    def owns(self, resource: Resource) -> bool:
        """Whether this memory came from here."""
        owner: object = resource
        while isinstance(owner, Resource):
            owner = owner.owner
        return isinstance(owner, Allocation) and owner.heap is self

    def _place(self, size: int, alignment: int) -> tuple[Block, int]:
        """Find room, in a block that is there or in a new one."""
        if self.capabilities.host_visible:
            return self._new_block(size, alignment, None), 0
        step = max(self.capabilities.alignment, SMALLEST_STEP)
        for block in self._blocks.values() if alignment <= step else ():
            if block.heap is not None:
                try:
                    return block, block.heap.alloc(size, alignment)
                except ArenaFullError:
                    continue
        whole = -(-size // step) * step
        limit = self.capabilities.max_allocation
        wanted = max(whole, self.allocator.block_bytes // step * step)
        if alignment > step or (limit and wanted > limit):
            wanted = size if alignment > step or whole > limit else limit // step * step
        if wanted < whole:
            return self._new_block(size, alignment, None), 0
        heap = OffsetHeap(wanted, step, name=str(self.device))
        return self._new_block(wanted, max(alignment, step), heap), heap.alloc(size, 1)

    def _new_block(self, nbytes: int, alignment: int, heap: OffsetHeap | None) -> Block:
        with self._called(f"allocate of {nbytes} bytes"):
            resource = self.allocator.allocate(self.device.index, nbytes, alignment)
        self._check(resource, nbytes, alignment)
        block = Block(resource, heap)
        self._blocks[id(block)] = block
        self._taken.add(resource)
        self._vk_device = self._vk_device or resource.details.get("device", 0)
        return block

    def _check(self, resource: Resource, nbytes: int, alignment: int) -> None:
        """Refuse what an allocator must not return. Overlapping memory is not given back: it is somebody's."""
        if not isinstance(resource, Resource):
            raise DeviceError(f"{self._name()}: allocate returned a {type(resource).__name__}, no Resource")
        other = self._taken.overlapping(resource)
        if other:
            raise DeviceError(
                f"{self._name()}: allocate returned {resource!r}, which overlaps bytes {other[0]} to {other[1]} "
                "that are in use"
            )
        start = resource.offset + (resource.handle if resource.kind in POINTER_KINDS else 0)
        fault = ""
        if resource.nbytes < nbytes:
            fault = f"{nbytes} bytes were asked for"
        elif start % alignment:
            fault = f"it does not begin at a multiple of {alignment} bytes"
        if fault:
            self._deallocate(resource)
            raise DeviceError(f"{self._name()}: allocate returned {resource!r}, but {fault}")

    def _require_process(self) -> None:
        if os.getpid() != self._process and not self.capabilities.host_visible:
            raise DeviceError(f"{self.device}: its memory belongs to the process that forked this one; load it there")

    def _require_transfer(self, resource: Resource) -> None:
        """Refuse memory that this allocator knows nothing about."""
        self._require_process()
        vk_device = resource.details.get("device", 0)
        if vk_device and self._vk_device and vk_device != self._vk_device:
            raise DeviceError(
                f"{resource!r} belongs to VkDevice 0x{vk_device:x}, memory of {self.device} to 0x{self._vk_device:x}"
            )
        if not self.owns(resource) and int(resource.kind) not in self.capabilities.import_kinds:
            raise DeviceError(
                f"{resource!r} was not allocated by {self._name()}, which cannot import a {kind_name(resource.kind)}"
            )

    def _name(self) -> str:
        return f"{self.allocator!r} for {self.device}"

    @contextmanager
    def _called(self, what: str) -> Iterator[None]:
        """Say whose call failed. What the caller must tell apart keeps its class."""
        try:
            yield
        except ArenaFullError as error:
            raise ArenaFullError(f"{self._name()}: {what}: {error}") from error
        except MemoryError as error:
            raise ArenaFullError(f"{self._name()}: {what}: no memory {error}".rstrip()) from error
        except Exception as error:
            kind = "" if isinstance(error, Error) else f"{type(error).__name__}: "
            raise DeviceError(f"{self._name()}: {what}: {kind}{error}") from error

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep everybody else from the allocator for this device, for calls that are not made through the heap."""
        with self._locked():
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if os.getpid() != self._process:  # only the forking thread lives on: nobody holds the lock
            self._lock = threading.Lock()
            if self.capabilities.host_visible:
                self._process = os.getpid()
        failures: list[Error] = []
        try:
            with self._lock, in_a_call():
                if _calls.depth == 1:  # in no other call
                    failures = self._empty_dropped()  # what this thread freed before makes room for what it does now
                yield
        finally:
            self._warn(failures)
            self._drain()

    def _soon(self, free: Callable[[], object]) -> None:
        """Free something now if this thread is in no call to an allocator and nobody holds the lock, else after it."""
        self._dropped.append(free)
        self._drain()

    def _drain(self) -> None:
        """Free what was dropped, unless somebody who will do it holds the lock, or this thread is in a call."""
        _calls.waiting.append(self)
        free_dropped()

    def _free_dropped(self) -> None:
        while self._dropped and self._lock.acquire(blocking=False):
            try:
                with in_a_call():
                    failures = self._empty_dropped()
            finally:
                self._lock.release()
            self._warn(failures)

    def _empty_dropped(self) -> list[Error]:
        """Free what was dropped, with the lock; what went wrong, to be told without it."""
        failures = []
        while self._dropped:
            try:
                self._dropped.popleft()()
            except Error as error:
                failures.append(error)
        return failures

    def _warn(self, failures: list[Error]) -> None:
        """Tell of failures that nobody asked for; without the lock, because a hook may ask for `stats`."""
        for error in failures:
            LostMemory(f"memory of {self.device} is lost: {error}")

    def _free(self, block: Block, offset: int, nbytes: int) -> None:
        self._live -= nbytes
        self._count -= 1
        block.users -= 1
        if block.heap is not None:
            block.heap.free(offset)
        if block.users == 0 and (block.heap is None or self._retired):
            self._release(block)

    def _release(self, block: Block) -> int:
        """Give a block without users back; its bytes."""
        del self._blocks[id(block)]
        self._taken.remove(block.resource)
        if os.getpid() != self._process and not self.capabilities.host_visible:
            return 0  # the parent's to give back
        self._deallocate(block.resource)
        return block.resource.nbytes

    def _deallocate(self, resource: Resource) -> None:
        with self._called("deallocate"):
            self.allocator.deallocate(self.device.index, resource)
