"""Memory of the device for delegates that do not work in the shared arena: one buffer, planned by offsets."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError

if TYPE_CHECKING:
    from ...device.vulkan.device import Device
    from ...device.vulkan.memory import Buffer

__all__ = ["DeviceArena"]


class DeviceArena:
    """A buffer that grows to the largest plan; delegates that use it take turns by holding `lock`.

    Parameters
    ----------
    device
        Where it is.

    Attributes
    ----------
    lock : threading.RLock
        Held from planning to the end of the work.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.lock = threading.RLock()
        self._buffer: Buffer | None = None
        self._staging: Buffer | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it has now."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def buffer(self, nbytes: int) -> Buffer:
        """Device memory of so many bytes or more; what was in it is lost if it had to grow.

        Raises
        ------
        OutOfMemoryError
            The device has no room.
        """
        if self._buffer is None or self._buffer.nbytes < nbytes:
            let_go(self._buffer)
            self._buffer = None  # before the new one is there
            self._buffer = self._device.buffer(max(nbytes, 256))
        return self._buffer

    def release(self) -> None:
        """Let go of all memory."""
        with self.lock:
            let_go(self._buffer)
            let_go(self._staging)
            self._buffer = self._staging = None

    def staging(self, nbytes: int) -> Buffer:
        """Memory that the CPU sees, by which arguments come and go."""
        if self._staging is None or self._staging.nbytes < nbytes:
            let_go(self._staging)
            self._staging = None
            self._staging = self._device.buffer(max(nbytes, 256), host_visible=True)
        return self._staging


def let_go(buffer: Buffer | None) -> None:
    """Close a buffer; what was recorded with it gives way. What is at work keeps it until it is done."""
    if buffer is not None:
        with suppress(DeviceError):
            buffer.close()
