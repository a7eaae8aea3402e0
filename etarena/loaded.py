"""What a program's methods hold on to: the native program, the arena, and the state they share."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .allocator.errors import PlanError
from .delegates.vulkan.graph import BACKEND_ID
from .own_delegates import register_own_delegates
from .state import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

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
    vulkan
        The Vulkan device of its delegates; None for the process's default one.
    """

    def __init__(
        self, native: NativeProgram, arena: Arena, plan_cache: int, anytime: bool = False, vulkan: Any = None
    ) -> None:
        self.native = native
        self.arena = arena
        self.plan_cache = plan_cache
        self.anytime = anytime
        self.vulkan = vulkan
        self.states: dict[str, State] = {}

    def loading(self, method: str) -> AbstractContextManager[None]:
        """Prepare for loading a method; its delegates are made inside what is returned."""
        backends = self.native.describe(method)[1]
        register_own_delegates(backends)
        if BACKEND_ID not in backends:
            return nullcontext()
        from .delegates.vulkan.session import use_device

        return use_device(self.vulkan)

    def between_semaphores(
        self, wait: Sequence[Any], signal: Sequence[Any], timeout: float | None
    ) -> AbstractContextManager[None]:
        """Let a run begin and end with semaphores of the program's Vulkan device."""
        from .delegates.vulkan.session import default_device
        from .devices.ordering import between_semaphores

        return between_semaphores(self.vulkan or default_device(), wait, signal, timeout)

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
