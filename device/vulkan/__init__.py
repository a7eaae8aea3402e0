"""Vulkan: devices, buffers, images, semaphores and memory shared with the CPU.

libvulkan is opened when a device is made. Importing this package needs none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .allocator import VulkanAllocator
    from .arena_import import ArenaImport
    from .commands import Commands
    from .device import Device, physical_devices
    from .errors import DeviceLostError, MissingFeatureError, OutOfMemoryError, VulkanError, WaitTimeoutError
    from .formats import FORMATS, Format, format_of
    from .info import DeviceInfo, MemoryHeap, MemoryType, Message, QueueFamily
    from .memory import Buffer, Image, Memory
    from .pipelines import Pipeline, PipelineCache
    from .submission import Submission
    from .sync import Fence, QueryPool, Semaphore
    from .transfers import Span

__all__ = [
    "FORMATS",
    "ArenaImport",
    "Buffer",
    "Commands",
    "Device",
    "DeviceInfo",
    "DeviceLostError",
    "Fence",
    "Format",
    "Image",
    "Memory",
    "MemoryHeap",
    "MemoryType",
    "Message",
    "MissingFeatureError",
    "OutOfMemoryError",
    "Pipeline",
    "PipelineCache",
    "QueryPool",
    "QueueFamily",
    "Semaphore",
    "Span",
    "Submission",
    "VulkanAllocator",
    "VulkanError",
    "WaitTimeoutError",
    "format_of",
    "physical_devices",
]

_MODULES = {
    ".allocator": ["VulkanAllocator"],
    ".arena_import": ["ArenaImport"],
    ".commands": ["Commands"],
    ".device": ["Device", "physical_devices"],
    ".errors": ["DeviceLostError", "MissingFeatureError", "OutOfMemoryError", "VulkanError", "WaitTimeoutError"],
    ".formats": ["FORMATS", "Format", "format_of"],
    ".info": ["DeviceInfo", "MemoryHeap", "MemoryType", "Message", "QueueFamily"],
    ".memory": ["Buffer", "Image", "Memory"],
    ".pipelines": ["Pipeline", "PipelineCache"],
    ".submission": ["Submission"],
    ".sync": ["Fence", "QueryPool", "Semaphore"],
    ".transfers": ["Span"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import the module that defines a name when the name is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_HOME[name], __name__)
    except ModuleNotFoundError as error:
        from .errors import MissingFeatureError

        raise MissingFeatureError(
            f"this etarena was built without Vulkan ({error.name} is missing): install Vulkan's headers with "
            "'apt-get install libvulkan-dev' and build it again"
        ) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
