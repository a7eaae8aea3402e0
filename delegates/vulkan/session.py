"""What all delegates on one Vulkan device share: the device, imported arenas, memory of its own."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ...allocator.errors import InputError
from ...device.vulkan.arena_import import ArenaImport
from ...device.vulkan.device import Device
from ...device.vulkan.requirements import HOST_IMPORT
from .device_arena import DeviceArena

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...allocator.arena import Arena

__all__ = ["Session", "current_session", "session_of", "use_device"]

_sessions: weakref.WeakKeyDictionary[Device, weakref.ref[Session]] = weakref.WeakKeyDictionary()
_defaults: dict[int, Device] = {}  # by process: a fork makes its own
_lock = threading.Lock()
_chosen: ContextVar[Device | None] = ContextVar("etarena_vulkan_device", default=None)


class Session:
    """A device as the delegates use it.

    Parameters
    ----------
    device
        Kept alive.

    Attributes
    ----------
    shares_arena : bool
        Whether the device works on an arena's memory in place: it has no memory of its own that is faster, and can
        import the CPU's. Otherwise inner tensors live in `memory`, and arguments are copied there and back.
    memory : DeviceArena
        The device's own memory for delegates; they take turns.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.shares_arena = device.info.unified and HOST_IMPORT in device.enabled_extensions
        self.memory = DeviceArena(device)
        # By the arena's id, which an import keeps alive; delegates keep the imports that they use.
        self._imports: weakref.WeakValueDictionary[int, ArenaImport] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        device.before_closing(self.release)  # which also keeps the session as long as the device

    def release(self) -> None:
        """Let go of imported arenas and of the device's memory; they are made again when they are needed."""
        with self._lock:
            for found in list(self._imports.values()):
                found.forget()
        self.memory.release()

    def imported(self, arena: Arena) -> ArenaImport:
        """An arena's memory on the device; imported as long as somebody holds what this returns."""
        with self._lock:
            found = self._imports.get(id(arena))
            if found is None:
                found = self._imports[id(arena)] = ArenaImport(self.device, arena)
            return found


def session_of(device: Device) -> Session:
    """The session of a device."""
    with _lock:
        known = _sessions.get(device)
        found = known() if known is not None else None
        if found is None:
            found = Session(device)
            _sessions[device] = weakref.ref(found)
        return found


@contextmanager
def use_device(device: Device | None) -> Iterator[None]:
    """Let delegates that are loaded in this block (and thread or task) run on a device; None: the default one."""
    token = _chosen.set(device)
    try:
        yield
    finally:
        _chosen.reset(token)


def current_session() -> Session:
    """The session for delegates that are loaded now.

    Without `use_device` it is that of a device made for this process: number ``$ETARENA_VULKAN_DEVICE`` (0), with
    validation if ``$ETARENA_VULKAN_VALIDATION`` is 1.

    Raises
    ------
    MissingFeatureError
        There is no Vulkan on this machine.
    """
    return session_of(_chosen.get() or default_device())


def default_device() -> Device:
    """The device that delegates use unless another is given."""
    with _lock:
        found = _defaults.get(os.getpid())
        if found is None or found.is_closed:
            number = _number_of(os.environ.get("ETARENA_VULKAN_DEVICE", "0"))
            validation = os.environ.get("ETARENA_VULKAN_VALIDATION") == "1"
            found = _defaults[os.getpid()] = Device.create(number, validation=validation)
        return found


def _number_of(text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"ETARENA_VULKAN_DEVICE is the number of a device (vulkan.physical_devices()), not {text!r}")
    return int(text)
