"""The activation region of an arena as memory of a Vulkan device."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError
from .transfers import Span

if TYPE_CHECKING:
    from ...allocator.arena import Arena
    from .device import Device
    from .memory import Buffer

__all__ = ["ArenaImport"]


class Segment:
    """Bytes ``[start, end)`` of the region, imported once."""

    def __init__(self, arena: Arena, start: int, end: int, buffer: Buffer) -> None:
        self.arena, self.start, self.end, self.buffer = arena, start, end, buffer
        buffer.guard = self

    def is_there(self) -> bool:
        """Whether the arena still has these bytes."""
        return not self.arena.is_closed and self.end <= self.arena.activation_committed

    def check(self) -> None:
        """Refuse work on memory that the arena gave back."""
        if self.arena.is_closed:
            raise DeviceError(f"arena {self.arena.name!r} is closed, the device must not use its memory any more")
        if not self.is_there():
            raise DeviceError(
                f"arena {self.arena.name!r} gave this memory back when it was trimmed: ask its ArenaImport again"
            )


class ArenaImport:
    """Lets a device read and write the activation region of an arena in place.

    What is committed is imported; when the arena grows, only the new part is. A range that lies across two parts is
    imported once more as a whole, and kept.

    Parameters
    ----------
    device
        With VK_EXT_external_memory_host.
    arena
        Kept alive. Hold its turn (``with arena.turn():``) while the device works on it.

    Raises
    ------
    MissingFeatureError
        The extension is not enabled.
    """

    def __init__(self, device: Device, arena: Arena) -> None:
        device.require_host_import()
        self._device, self._arena = device, arena
        self._segments: list[Segment] = []
        self._crossing: list[Segment] = []
        self._lock = threading.RLock()
        self.step = device.info.limits["minImportedHostPointerAlignment"]
        if arena.is_closed:
            raise DeviceError(f"arena {arena.name!r} is closed")
        if arena.base % self.step:
            raise DeviceError(f"the arena does not begin at a multiple of {self.step} bytes, which this device imports")

    @property
    def imported(self) -> list[tuple[int, int]]:
        """First and one past the last byte of each part that is imported, counted from the arena's base."""
        with self._lock:
            return [(part.start, part.end) for part in (*self._segments, *self._crossing)]

    def range(self, offset: int, nbytes: int) -> Span:
        """Bytes of the activation region, which is grown if it ends before them.

        Parameters
        ----------
        offset
            From the arena's base, bytes.
        nbytes
            How many; above zero.

        Returns
        -------
        Span
            Buffer and offset in it. Work on it is refused after the arena gave the memory back.

        Raises
        ------
        ArenaFullError
            The arena cannot grow so far.
        DeviceError
            The arena is closed.
        """
        if offset < 0 or nbytes <= 0:
            raise DeviceError(f"{nbytes} bytes at {offset} are no part of an arena")
        with self._lock:
            self._drop_stale()  # before the arena grows over it again
            self._arena.ensure_activations(offset + nbytes)
            found = self._find(offset, nbytes)
            if found is None:
                self._extend()
                found = self._find(offset, nbytes) or self._import_across(offset, nbytes)
            return Span(found.buffer, offset - found.start, nbytes)

    def trim(self, timeout: float | None = 10.0) -> None:
        """Wait for the device, let go of all that is imported, and trim the arena.

        Raises
        ------
        WaitTimeoutError
            The device was not done in time: nothing was let go of.
        DeviceError
            A tensor or a recording still uses the memory.
        """
        self._release(timeout)
        self._arena.trim()

    def close(self, timeout: float | None = 10.0) -> None:
        """Wait for the device and let go of all that is imported. The arena stays as it is."""
        self._release(timeout)

    def forget(self) -> None:
        """Let go of all that is imported, of a device that is at rest; what is in use stays until it is not."""
        with self._lock:
            for part in (*self._crossing, *self._segments):
                with suppress(DeviceError):
                    part.buffer.close()
            self._crossing, self._segments = [], []

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.forget()

    def _release(self, timeout: float | None) -> None:
        with self._lock:
            self._device.wait_idle(timeout)
            for parts in (self._crossing, self._segments):
                while parts:
                    parts[-1].buffer.close()
                    parts.pop()

    def _drop_stale(self) -> None:
        """Forget what the arena gave back; the buffers live until nobody uses them."""
        self._segments = [part for part in self._segments if part.is_there()]
        self._crossing = [part for part in self._crossing if part.is_there()]

    def _find(self, offset: int, nbytes: int) -> Segment | None:
        for part in (*self._segments, *self._crossing):
            if part.start <= offset and offset + nbytes <= part.end:
                return part
        return None

    def _extend(self) -> None:
        """Import what was committed since."""
        committed = self._arena.activation_committed // self.step * self.step
        start = self._segments[-1].end if self._segments else 0
        largest = self._device.largest_allocation // self.step * self.step
        while start < committed:
            end = min(committed, start + largest)
            self._segments.append(self._import(start, end))
            start = end

    def _import_across(self, offset: int, nbytes: int) -> Segment:
        start = offset // self.step * self.step
        part = self._import(start, -(-(offset + nbytes) // self.step) * self.step)
        self._crossing.append(part)
        return part

    def _import(self, start: int, end: int) -> Segment:
        buffer = self._device.import_host(self._arena.base + start, end - start, owner=self._arena)
        return Segment(self._arena, start, end, buffer)
