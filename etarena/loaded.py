"""What a program's methods hold on to: the native program, the arena, and the state they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .allocator.errors import PlanError
from .state import State

if TYPE_CHECKING:
    from ._runtime import NativeProgram
    from .allocator import plan
    from .allocator.arena import Arena

__all__ = ["LoadedProgram"]


class LoadedProgram:
    """The part of a program that lives as long as any of its methods; it knows no method, so there is no cycle.

    Attributes
    ----------
    native
        ExecuTorch's program, which keeps the file's bytes.
    arena
        Where activations, results and state live.
    plan_cache
        Bytes that each method may keep of plans.
    states
        The states of the methods loaded so far, by name.
    anytime
        Whether plans that are used again are improved in the background.
    """

    def __init__(self, native: NativeProgram, arena: Arena, plan_cache: int, anytime: bool = False) -> None:
        self.native = native
        self.arena = arena
        self.plan_cache = plan_cache
        self.anytime = anytime
        self.states: dict[str, State] = {}

    def states_of(self, section: plan.Method) -> dict[str, State]:
        """The states that a method uses by name, in its order; made with their start values when first asked for.

        Raises
        ------
        PlanError
            If the method disagrees with another one about a state.
        """
        found = {}
        for state in section.states:
            if state.name in self.states:
                self.states[state.name].check_same(section, state)
            else:
                self.states[state.name] = State(self.arena, section, state)
            found[state.name] = self.states[state.name]
        if len(found) != len(section.states):
            raise PlanError("states: two states have the same name")
        return found
