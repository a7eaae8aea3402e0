"""Run-time memory planning for PyTorch models on the stock ExecuTorch runtime.

Importing this package only defines names: torch and the ExecuTorch libraries are loaded when a name that needs them is
first used. XNNPACK is told where its scratch memory comes from at once, which works only before its library is loaded.
"""

import importlib
from typing import TYPE_CHECKING

from .delegates.xnnpack import interpose

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import allocator
    from .allocator.arena import Arena
    from .allocator.errors import (
        ArenaFullError,
        DeviceError,
        Error,
        ExportError,
        InputError,
        InputTypeError,
        PlanError,
        RuntimeFailure,
        ShapeError,
        SizeOverflowError,
    )
    from .device.copies import CopyRefusedError, zero_copy
    from .device.device import Device, DeviceType
    from .device.etensor import ETensor
    from .explanation import Explanation, explain
    from .exporter import ExportedModel, export
    from .memory_plan import MemoryPlan, RunStats
    from .program import Method, Program, load

__all__ = [
    "Arena",
    "ArenaFullError",
    "CopyRefusedError",
    "Device",
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
    "RunStats",
    "RuntimeFailure",
    "ShapeError",
    "SizeOverflowError",
    "__version__",
    "allocator",
    "explain",
    "export",
    "load",
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
        "RuntimeFailure",
        "ShapeError",
        "SizeOverflowError",
    ],
    ".device.copies": ["CopyRefusedError", "zero_copy"],
    ".device.device": ["Device", "DeviceType"],
    ".device.etensor": ["ETensor"],
    ".explanation": ["Explanation", "explain"],
    ".exporter": ["ExportedModel", "export"],
    ".memory_plan": ["MemoryPlan", "RunStats"],
    ".program": ["Method", "Program", "load"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import the module that defines a public name when the name is first used (PEP 562)."""
    if name == "allocator":
        return importlib.import_module(".allocator", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


interpose()
