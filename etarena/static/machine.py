"""What the instructions of a finished method do to its values, for the verifier: read from the program alone.

A value of the program is an EValue. A planned one has a *home*, the bytes that its allocation names. Moves and views
make an EValue point at the home of another. A view may have been left out of the instructions: then a tensor is read
that no instruction writes, and it must lie where something was written when it came into being. When that was follows
from its number, because the emitter numbers values as it goes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from executorch.exir.schema import (
    DelegateCall,
    ExecutionPlan,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Tensor,
    TensorList,
)
from executorch.exir.tensor import get_scalar_type

from ..instructions import read_steps

__all__ = ["Home", "Machine", "bits"]

VIEW = "executorch_prim::et_view"
COPY_INDEX = "executorch_prim::et_copy_index"


@dataclass(frozen=True)
class Home:
    """The bytes of a memory id from `start` up to `end`."""

    memory_id: int
    start: int
    end: int

    def meets(self, other: "Home") -> bool:
        """Whether two homes share a byte."""
        return self.memory_id == other.memory_id and self.start < other.end and other.start < self.end

    def holds(self, other: "Home") -> bool:
        """Whether all of another home lies within this one."""
        return self.memory_id == other.memory_id and self.start <= other.start and other.end <= self.end


class Machine:
    """The instructions of a method and what each does.

    Parameters
    ----------
    plan : ExecutionPlan
        The method.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.steps = read_steps(plan)
        self.calls = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
        self.homes: dict[int, Home] = {}
        for index, value in enumerate(plan.values):
            if isinstance(value.val, Tensor) and value.val.allocation_info is not None:
                self.homes[index] = _home(value.val)

    @cached_property
    def successors(self) -> list[list[int]]:
        """Where control flow goes from each instruction; the end is one past the last."""
        following = []
        for position, step in enumerate(self.steps):
            if step.target is None:
                following.append([position + 1])
            else:
                following.append([step.target] if step.always else [position + 1, step.target])
        return [*following, []]

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Where control flow comes from."""
        before: list[list[int]] = [[] for _ in self.successors]
        for position, following in enumerate(self.successors):
            for successor in following:
                before[successor].append(position)
        return before

    @cached_property
    def created(self) -> list[int]:
        """For every value the instruction before which it came into being."""
        first = [len(self.steps)] * len(self.plan.values)
        known = 0
        for position, call in enumerate(self.calls):
            for index in self._arguments(call):
                if index >= known:
                    first[known : index + 1] = [position] * (index + 1 - known)
                    known = index + 1
        return first

    def _arguments(self, call: object) -> Iterator[int]:
        """Values that an instruction names; not the truth value of a jump, which may be younger than its place."""
        given: Sequence[int] = ()
        if isinstance(call, KernelCall | DelegateCall):
            given = call.args
        elif isinstance(call, MoveCall):
            given = (call.move_from, call.move_to)
        for index in given:
            yield index
            value = self.plan.values[index].val
            if isinstance(value, TensorList | OptionalTensorList):
                yield from (item for item in value.items if item >= 0)

    def is_view(self, position: int) -> bool:
        """Whether an instruction only makes one value point at another's bytes."""
        return self.steps[position].label.startswith(VIEW)

    def moved(self, position: int) -> tuple[int, int] | None:
        """(source, destination) of an instruction that makes one value point where another does."""
        step = self.steps[position]
        if step.move is not None:
            return step.move
        return step.aliases[0] if self.is_view(position) and step.aliases else None

    def overwritten(self, position: int) -> tuple[int, ...]:
        """Values of which every byte is written."""
        return () if self.is_view(position) else self.steps[position].writes

    def changed(self, position: int) -> tuple[int, ...]:
        """Values of which some bytes are written and others kept."""
        step = self.steps[position]
        if step.label.startswith(COPY_INDEX):
            return step.uses[:1]
        return () if self.is_view(position) else tuple(result for _, result in step.aliases)

    def stacked(self, position: int) -> tuple[int, ...]:
        """Values that a loop fills row by row: they begin with no contents."""
        step = self.steps[position]
        return step.uses[:1] if step.label.startswith(COPY_INDEX) else ()

    def touched(self, position: int) -> tuple[int, ...]:
        """Values whose bytes are read or written."""
        if self.moved(position) is not None or isinstance(self.calls[position], JumpFalseCall):
            return self.steps[position].uses if isinstance(self.calls[position], JumpFalseCall) else ()
        return self.steps[position].uses


def bits(values: int) -> Iterator[int]:
    """Positions of the bits that are set."""
    while values:
        bit = values.bit_length() - 1
        yield bit
        values ^= 1 << bit


def _home(tensor: Tensor) -> Home:
    allocation = tensor.allocation_info
    assert allocation is not None
    start = allocation.memory_offset_low | allocation.memory_offset_high << 32
    return Home(allocation.memory_id, start, start + prod(tensor.sizes) * get_scalar_type(tensor.scalar_type).itemsize)
