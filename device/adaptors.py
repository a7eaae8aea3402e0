"""Allocators around allocators: limits, logs, statistics, and failures for tests. They stack."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..allocator.errors import ArenaFullError, DeviceError
from .forwarding import ForwardingAllocator
from .tables import as_allocator

if TYPE_CHECKING:
    from collections.abc import Callable

    from .allocator import DeviceAllocator
    from .resource import Resource

__all__ = ["AllocatorAdaptor", "FailingAllocator", "LimitAllocator", "LogAllocator", "TrackAllocator", "TrackStats"]


class AllocatorAdaptor(ForwardingAllocator):
    """Passes everything on to another allocator.

    Parameters
    ----------
    inner
        A `DeviceAllocator`, or whatever `register_device_allocator` takes.
    """

    inner: DeviceAllocator

    def __init__(self, inner: object) -> None:
        super().__init__(as_allocator(inner))
        self.block_bytes = self.inner.block_bytes
        self._lock = threading.RLock()  # the cycle collector may give memory back while it is held

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"


class LimitAllocator(AllocatorAdaptor):
    """Refuses to hold more than so many bytes, counted over all devices of the type.

    Parameters
    ----------
    inner
        As for `AllocatorAdaptor`.
    limit
        Bytes.
    """

    def __init__(self, inner: object, limit: int) -> None:
        super().__init__(inner)
        if limit < 0:
            raise DeviceError(f"a limit of {limit} bytes is negative")
        self.limit = limit
        self.block_bytes = min(self.block_bytes, limit)
        self.live = 0

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        with self._lock:
            if nbytes > self.limit - self.live:
                raise ArenaFullError(
                    f"{nbytes} bytes are more than the {self.limit - self.live} that the limit of {self.limit} bytes "
                    f"leaves, {self.live} are in use"
                )
            self.live += nbytes
        try:
            resource = self.inner.allocate(index, nbytes, alignment)
        except BaseException:
            self._count(-nbytes)
            raise
        self._count(resource.nbytes - nbytes)
        return resource

    def deallocate(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.deallocate`."""
        self.inner.deallocate(index, resource)
        self._count(-resource.nbytes)

    def _count(self, nbytes: int) -> None:
        with self._lock:
            self.live += nbytes


class LogAllocator(AllocatorAdaptor):
    """Writes a line for each call.

    Parameters
    ----------
    inner
        As for `AllocatorAdaptor`.
    write
        Called with the line; `print` by default.
    """

    def __init__(self, inner: object, write: Callable[[str], object] = print) -> None:
        super().__init__(inner)
        self.write = write

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        try:
            resource = self.inner.allocate(index, nbytes, alignment)
        except BaseException as error:
            self.write(f"{index} allocate {nbytes} alignment {alignment}: {type(error).__name__}: {error}")
            raise
        self.write(f"{index} allocate {nbytes} alignment {alignment}: {resource!r}")
        return resource

    def deallocate(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.deallocate`."""
        self.write(f"{index} deallocate {resource!r}")
        self.inner.deallocate(index, resource)

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """As `DeviceAllocator.copy_to_device`."""
        self.write(f"{index} copy_to_device {source.nbytes} bytes at {offset} of {destination!r}")
        self.inner.copy_to_device(index, destination, offset, source)

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """As `DeviceAllocator.copy_to_host`."""
        self.write(f"{index} copy_to_host {destination.nbytes} bytes at {offset} of {source!r}")
        self.inner.copy_to_host(index, destination, source, offset)


@dataclass(frozen=True)
class TrackStats:
    """What passed through a `TrackAllocator`; sizes in bytes."""

    live_bytes: int
    peak_bytes: int
    live_blocks: int
    allocations: int
    frees: int
    bytes_to_device: int
    bytes_to_host: int


class TrackAllocator(AllocatorAdaptor):
    """Counts blocks and bytes, and refuses what was not allocated through it."""

    def __init__(self, inner: object) -> None:
        super().__init__(inner)
        self._live: dict[tuple[int, int], Resource] = {}
        self._counts = dict.fromkeys(TrackStats.__dataclass_fields__, 0)

    @property
    def stats(self) -> TrackStats:
        """A consistent snapshot."""
        with self._lock:
            return TrackStats(**self._counts)

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        resource = self.inner.allocate(index, nbytes, alignment)
        with self._lock:
            self._live[index, id(resource)] = resource
            counts = self._counts
            counts["allocations"] += 1
            counts["live_blocks"] += 1
            counts["live_bytes"] += resource.nbytes
            counts["peak_bytes"] = max(counts["peak_bytes"], counts["live_bytes"])
        return resource

    def deallocate(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.deallocate`."""
        with self._lock:
            if self._live.pop((index, id(resource)), None) is None:
                raise DeviceError(f"{resource!r} of device {index} was freed before, or came from elsewhere")
            self._counts["frees"] += 1
            self._counts["live_blocks"] -= 1
            self._counts["live_bytes"] -= resource.nbytes
        self.inner.deallocate(index, resource)

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """As `DeviceAllocator.copy_to_device`."""
        self.inner.copy_to_device(index, destination, offset, source)
        with self._lock:
            self._counts["bytes_to_device"] += source.nbytes

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """As `DeviceAllocator.copy_to_host`."""
        self.inner.copy_to_host(index, destination, source, offset)
        with self._lock:
            self._counts["bytes_to_host"] += destination.nbytes


class FailingAllocator(AllocatorAdaptor):
    """Fails at the n-th call that can fail, for tests: allocate, copy_to_device, copy_to_host.

    Parameters
    ----------
    inner
        As for `AllocatorAdaptor`.
    at
        Which call fails, counted from 0; None for none. Can be set again, which begins to count anew.
    """

    def __init__(self, inner: object, at: int | None = None) -> None:
        super().__init__(inner)
        self.fail_at(at)

    def fail_at(self, at: int | None) -> None:
        """Let the call fail that follows after `at` others."""
        with self._lock:
            self._left = at

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        self._step(ArenaFullError(f"told to fail when asked for {nbytes} bytes"))
        return self.inner.allocate(index, nbytes, alignment)

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """As `DeviceAllocator.copy_to_device`."""
        self._step(DeviceError(f"told to fail when {source.nbytes} bytes go to the device"))
        self.inner.copy_to_device(index, destination, offset, source)

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """As `DeviceAllocator.copy_to_host`."""
        self._step(DeviceError(f"told to fail when {destination.nbytes} bytes come from the device"))
        self.inner.copy_to_host(index, destination, source, offset)

    def _step(self, error: Exception) -> None:
        with self._lock:
            fails = self._left == 0
            if self._left is not None:
                self._left = self._left - 1 if self._left > 0 else None
        try:
            if fails:
                raise error
        finally:
            del error  # no cycle of exception and frame, which would hold the resource
