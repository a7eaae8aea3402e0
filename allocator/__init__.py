"""The ground floor: an arena, offsets inside it, sizes from symbols, and the section that describes a method.

Imports neither torch nor ExecuTorch. ``plan`` (the section of a program file) and ``size_compiler`` are modules of
their own.
"""

from . import errors
from . import fork as fork  # registers what must happen when a process is copied
from .anytime import AnytimePlanner
from .arena import Arena, Block, Turn
from .arena_core import DEBUG
from .arena_stats import ArenaStats, HeapStats
from .errors import *  # noqa: F403 - errors.__all__ is the list
from .offset_heap import OffsetHeap
from .offsets import plan_exact, plan_offsets
from .planner import OffsetPlanner, Plan
from .rules import RULES
from .sizes import Opcode, SizeProgram
from .trace import AllocationEvent, HeapRange, HeapSnapshot
from .verify import Fault, FaultKind, find_faults, verify

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
