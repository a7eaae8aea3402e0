"""Backends that come with etarena, registered when a program first needs one."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

from .delegate_registry import register_delegate
from .delegates.vulkan.graph import BACKEND_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["register_own_delegates"]

CLASSES = {BACKEND_ID: (".delegates.vulkan.delegate", "VulkanDelegate")}
_registered: set[str] = set()
_lock = threading.Lock()


def register_own_delegates(backends: Iterable[str]) -> None:
    """Make those of these backends known that are etarena's.

    Raises
    ------
    Error
        Somebody else took the name, or ExecuTorch has no room.
    """
    for name in CLASSES.keys() & set(backends):
        with _lock:
            if name not in _registered:
                module, attribute = CLASSES[name]
                register_delegate(name, getattr(importlib.import_module(module, __package__), attribute))
                _registered.add(name)
