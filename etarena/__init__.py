"""Run-time memory planning for PyTorch models on the stock ExecuTorch runtime.

Importing this package only defines names: torch and the ExecuTorch libraries are loaded when a name that needs them is
first used. XNNPACK is told where its scratch memory comes from at once, which works only before its library is loaded.
"""

import importlib
from typing import TYPE_CHECKING

from .delegates.xnnpack import interpose

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import allocator, testing, vulkan
    from .allocator.arena import Arena
    from .allocator.errors import (
        ArenaFullError,
        DeviceError,
        Error,
        ExportError,
        InputError,
        InputTypeError,
        PlanError,
        PropagationError,
        RuntimeFailure,
        ShapeError,
        SizeOverflowError,
    )
    from .delegate_registry import get_include, register_delegate, unregister_delegate
    from .delegates.delegate import Delegate, Requirement
    from .delegates.vulkan.partitioner import VulkanPartitioner
    from .device.allocator import DeviceAllocator
    from .device.capabilities import Capabilities
    from .device.copies import CopyRefusedError, record_copies, zero_copy
    from .device.device import Device, DeviceType
    from .device.etensor import ETensor
    from .device.kinds import ResourceKind
    from .device.registry import device_allocator, register_device_allocator, unregister_device_allocator
    from .device.resource import Resource
    from .explanation import Explanation, explain
    from .exporter import ExportedModel, export
    from .memory_plan import MemoryPlan, RunStats
    from .program import Method, Program, load
    from .propagation.propagator import propagate
    from .propagation.result import Propagation
    from .propagation.values import PropagatedValue

__all__ = [
    "Arena",
    "ArenaFullError",
    "Capabilities",
    "CopyRefusedError",
    "Delegate",
    "Device",
    "DeviceAllocator",
    "DeviceError",
    "DeviceType",
    "ETensor",
    "Error",
    "Explanation",
    "ExportError",
    "ExportedModel",
    "InputError",
    "InputTypeError",
    "MemoryPlan",
    "Method",
    "PlanError",
    "Program",
    "PropagatedValue",
    "Propagation",
    "PropagationError",
    "Requirement",
    "Resource",
    "ResourceKind",
    "RunStats",
    "RuntimeFailure",
    "ShapeError",
    "SizeOverflowError",
    "VulkanPartitioner",
    "__version__",
    "allocator",
    "device_allocator",
    "explain",
    "export",
    "get_include",
    "load",
    "propagate",
    "record_copies",
    "register_delegate",
    "register_device_allocator",
    "testing",
    "unregister_delegate",
    "unregister_device_allocator",
    "vulkan",
    "zero_copy",
]

_MODULES = {
    ".allocator.arena": ["Arena"],
    ".allocator.errors": [
        "ArenaFullError",
        "DeviceError",
        "Error",
        "ExportError",
        "InputError",
        "InputTypeError",
        "PlanError",
        "PropagationError",
        "RuntimeFailure",
        "ShapeError",
        "SizeOverflowError",
    ],
    ".delegate_registry": ["get_include", "register_delegate", "unregister_delegate"],
    ".delegates.delegate": ["Delegate", "Requirement"],
    ".delegates.vulkan.partitioner": ["VulkanPartitioner"],
    ".device.allocator": ["DeviceAllocator"],
    ".device.capabilities": ["Capabilities"],
    ".device.copies": ["CopyRefusedError", "record_copies", "zero_copy"],
    ".device.device": ["Device", "DeviceType"],
    ".device.etensor": ["ETensor"],
    ".device.kinds": ["ResourceKind"],
    ".device.registry": ["device_allocator", "register_device_allocator", "unregister_device_allocator"],
    ".device.resource": ["Resource"],
    ".explanation": ["Explanation", "explain"],
    ".exporter": ["ExportedModel", "export"],
    ".memory_plan": ["MemoryPlan", "RunStats"],
    ".program": ["Method", "Program", "load"],
    ".propagation.propagator": ["propagate"],
    ".propagation.result": ["Propagation"],
    ".propagation.values": ["PropagatedValue"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import the module that defines a public name when the name is first used (PEP 562)."""
    if name in ("allocator", "testing", "vulkan"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


interpose()
