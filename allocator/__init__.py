"""The ground floor: an arena, offsets inside it, sizes from symbols, and the section that describes a method.

Imports neither torch nor ExecuTorch, and each of its own modules only when a name of it is first used: who plans ahead
of time loads nothing of the arena. ``plan`` (the section of a program file) and ``size_compiler`` are modules of their
own.
"""

import importlib
from typing import TYPE_CHECKING

from . import errors
from .errors import *  # noqa: F403 - errors.__all__ is the list
from .gate import HAS_RUN_TIME, require_run_time

if TYPE_CHECKING:
    from .anytime import AnytimePlanner
    from .arena import Arena, Turn
    from .arena_core import DEBUG
    from .arena_stats import ArenaStats, HeapStats
    from .block import Block
    from .faults import Fault, FaultKind, find_faults, verify
    from .offset_heap import OffsetHeap
    from .offsets import plan_exact, plan_offsets
    from .planner import OffsetPlanner, Plan
    from .rules import RULES
    from .sizes import Opcode, SizeProgram
    from .trace import AllocationEvent, HeapRange, HeapSnapshot

__all__ = [
    "RULES",
    "AnytimePlanner",
    "DEBUG",
    "AllocationEvent",
    "Arena",
    "ArenaStats",
    "Block",
    "Fault",
    "FaultKind",
    "HeapRange",
    "HeapSnapshot",
    "HeapStats",
    "OffsetHeap",
    "OffsetPlanner",
    "Opcode",
    "Plan",
    "SizeProgram",
    "Turn",
    "find_faults",
    "plan_exact",
    "plan_offsets",
    "verify",
    *errors.__all__,
]

_AHEAD_OF_TIME = {
    ".anytime": ["AnytimePlanner"],
    ".faults": ["Fault", "FaultKind", "find_faults", "verify"],
    ".offsets": ["plan_exact", "plan_offsets"],
    ".planner": ["OffsetPlanner", "Plan"],
    ".rules": ["RULES"],
    ".sizes": ["Opcode", "SizeProgram"],
}
_RUN_TIME = {
    ".arena": ["Arena", "Turn"],
    ".arena_core": ["DEBUG"],
    ".arena_stats": ["ArenaStats", "HeapStats"],
    ".block": ["Block"],
    ".offset_heap": ["OffsetHeap"],
    ".trace": ["AllocationEvent", "HeapRange", "HeapSnapshot"],
}
_HOME = {name: module for module, names in (_AHEAD_OF_TIME | _RUN_TIME).items() for name in names}

if not HAS_RUN_TIME:
    __all__ = [name for name in __all__ if _HOME.get(name) not in _RUN_TIME]


def __getattr__(name: str) -> object:
    """Import the module that defines a public name when the name is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOME[name] in _RUN_TIME:
        require_run_time(f"etarena.allocator.{name}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
