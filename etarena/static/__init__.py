"""Planning ahead of time: offsets fixed at export in an ordinary program file, for the stock runtime.

Nothing here needs, or loads, what plans at run time.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .exported import StaticModel
    from .options import Candidate
    from .plan import ScratchPlace, StaticPlan, StaticPool, StaticValue
    from .planning_pass import StaticPlanningPass, static_planning_pass
    from .verifier import StaticFault, find_faults, verify

__all__ = [
    "Candidate",
    "ScratchPlace",
    "StaticFault",
    "StaticModel",
    "StaticPlan",
    "StaticPlanningPass",
    "StaticPool",
    "StaticValue",
    "find_faults",
    "static_planning_pass",
    "verify",
]

_MODULES = {
    ".exported": ["StaticModel"],
    ".options": ["Candidate"],
    ".plan": ["ScratchPlace", "StaticPlan", "StaticPool", "StaticValue"],
    ".planning_pass": ["StaticPlanningPass", "static_planning_pass"],
    ".verifier": ["StaticFault", "find_faults", "verify"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import the module that defines a public name when the name is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
