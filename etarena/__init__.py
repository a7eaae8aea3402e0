"""Run-time memory planning for PyTorch models on the stock ExecuTorch runtime.

Importing this package only defines names: torch and the ExecuTorch libraries are loaded when a name that needs them is
first used. XNNPACK is told where its scratch memory comes from at once, which works only before its library is loaded.

A build without run-time planning (docs/size.md) has the names that plan ahead of time; others raise `NotBuiltError`.
"""

import importlib
from typing import TYPE_CHECKING

from .allocator.gate import HAS_RUN_TIME, require_run_time

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import allocator, static, testing, vulkan
    from .allocator.arena import Arena
    from .allocator.errors import (
        ArenaFullError,
        DeviceError,
        Error,
        ExportError,
        InputError,
        InputTypeError,
        NotBuiltError,
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
    from .static.exported import StaticModel
    from .static.planning_pass import static_planning_pass

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
    "NotBuiltError",
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
    "StaticModel",
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
    "static",
    "static_planning_pass",
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
        "NotBuiltError",
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
    ".static.exported": ["StaticModel"],
    ".static.planning_pass": ["static_planning_pass"],
}
_SUBMODULES = ["allocator", "static", "testing", "vulkan"]
# Where the names are that plan ahead of time, which every build has.
_AHEAD_OF_TIME = {
    ".allocator",
    ".allocator.errors",
    ".device.device",
    ".explanation",
    ".exporter",
    ".propagation.propagator",
    ".propagation.result",
    ".propagation.values",
    ".static",
    ".static.exported",
    ".static.planning_pass",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names} | {
    name: f".{name}" for name in _SUBMODULES
}


def __getattr__(name: str) -> object:
    """Import the module that defines a public name when the name is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOME[name] not in _AHEAD_OF_TIME:
        require_run_time(f"etarena.{name}")
    module = importlib.import_module(_HOME[name], __name__)
    value = module if name in _SUBMODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if HAS_RUN_TIME:
    from .delegates.xnnpack import interpose

    interpose()
else:
    __all__ = [name for name in __all__ if _HOME.get(name, ".allocator") in _AHEAD_OF_TIME]
