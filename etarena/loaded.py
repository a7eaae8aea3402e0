"""What a program's methods hold on to: the native program, the arena, and the state they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .allocator.errors import PlanError
from .dtypes import ITEM_BYTES

if TYPE_CHECKING:
    from ._runtime import NativeProgram
    from .allocator import plan
    from .allocator.arena import Arena, Block

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
    anytime
        Whether plans that are used again are improved in the background.
    """

    def __init__(self, native: NativeProgram, arena: Arena, plan_cache: int, anytime: bool = False) -> None:
        self.native = native
        self.arena = arena
        self.plan_cache = plan_cache
        self.anytime = anytime
        self._states: dict[str, Block] = {}

    def state_block(self, section: plan.Method, state: plan.State) -> Block:
        """Return the arena block of a mutable buffer, shared by the methods that name it, made with its start value."""
        value = section.values[state.value]
        nbytes = ITEM_BYTES[value.dtype]
        for register in value.sizes:
            if register < len(section.symbols):
                raise PlanError(f"states[{state.name!r}].value: the size of a mutable buffer must be fixed")
            nbytes *= section.size_code[register - len(section.symbols)].a
        block = self._states.get(state.name)
        if block is None:
            block = self._states[state.name] = self.arena.alloc(nbytes)
            memoryview(block).cast("B")[:] = bytes(state.initial) or bytes(nbytes)
        if block.nbytes != nbytes:
            raise PlanError(
                f"states[{state.name!r}]: two methods disagree about its size: {block.nbytes}, {nbytes} bytes"
            )
        return block
