"""Vulkan devices and what is made on them; lives in ``etarena.device.vulkan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .device import vulkan as _home

if TYPE_CHECKING:
    from .device.vulkan import *  # noqa: F403

__all__ = list(_home.__all__)


def __getattr__(name: str) -> object:
    """Take a name from where it lives."""
    return getattr(_home, name)


def __dir__() -> list[str]:
    return list(_home.__all__)
