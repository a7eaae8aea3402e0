"""What is drawn: a memory plan with the words around it, and the curve of its live bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from ..allocator.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..memory_plan import MemoryPlan

__all__ = ["MapEntry", "checked", "live_bytes"]


@dataclass(frozen=True)
class MapEntry:
    """One memory plan of a picture.

    Attributes
    ----------
    group : str
        What it belongs to, usually a model: the first selector of the page.
    label : str
        What tells it from others of its group, usually the input's size: the second selector.
    plan : MemoryPlan
        As `Method.plan_for` gives it.
    note : str, default ""
        A sentence shown beside it.
    """

    group: str
    label: str
    plan: MemoryPlan
    note: str = ""


def live_bytes(plan: MemoryPlan) -> list[int]:
    """Bytes of the buffers that are live at each instruction; their maximum is the plan's lower bound."""
    steps = [0] * (max(len(plan.instructions), *(buffer.last for buffer in plan.buffers), 0) + 1)
    for buffer in plan.buffers:
        steps[buffer.first] += buffer.nbytes
        steps[buffer.last] -= buffer.nbytes
    return list(accumulate(steps))[:-1]


def checked(entries: Sequence[MapEntry]) -> list[MapEntry]:
    """The entries as a list.

    Raises
    ------
    InputError
        If there are none, or two of a group have the same label.
    """
    listed = list(entries)
    if not listed:
        raise InputError("a memory map needs at least one plan; got none")
    names = [(entry.group, entry.label) for entry in listed]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"two plans of {twice[0]!r} are both labelled {twice[1]!r}; give each a label of its own")
    return listed
