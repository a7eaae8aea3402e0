"""An independent check of plan sections: walk the emitted program and see what each instruction finds in memory.

Memory is a list of words. Each tensor that the section plans is placed by a planner of ten lines (first fit), then
every path through the program is walked: an instruction may only read words that hold what was last written to that
very storage, and what it writes replaces whatever was there. Nothing here shares code with the exporter: torch's
schemas say which operators write, and control flow is followed, not approximated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from executorch.exir._serialize import _deserialize_pte_binary
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

from etarena.allocator import plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    import etarena

STACK = "executorch_prim::et_copy_index"
# Operators that write their first argument without reading it.
WRITTEN_FIRST = {STACK, "aten::copy_"}
VIEW = "executorch_prim::et_view"
LONGEST_WALK = 2000


def emitted_plan(exported: etarena.ExportedModel, method: str = "forward") -> ExecutionPlan:
    """The instructions as the file has them."""
    program = _deserialize_pte_binary(exported.buffer).program
    return next(entry for entry in program.execution_plan if entry.name == method)


def place(section: plan.Method) -> dict[int, tuple[int, int]]:
    """Word range of each planned storage, by position: first fit over the lifetimes of the section, two words each."""
    placed: dict[int, tuple[int, int]] = {}
    for position, value in enumerate(section.values):
        if value.storage != position or value.kind not in (plan.Kind.ACTIVATION, plan.Kind.OUTPUT):
            continue
        start = 0
        overlapping = [
            placed[other]
            for other in placed
            if section.values[other].first < value.last and value.first < section.values[other].last
        ]
        while any(start < end and first < start + 2 for first, end in overlapping):
            start += 1
        placed[position] = (start, start + 2)
    return placed


@dataclass
class _Walk:
    position: int
    memory: dict[int, int]  # word -> storage that wrote it
    points_at: dict[int, int]  # EValue -> EValue whose tensor it is, after moves
    decisions: tuple[bool, ...]
    written: frozenset[int] = frozenset()


class MemoryWalk:
    """Walks every path of one method; `errors` lists reads of words that something else has overwritten."""

    def __init__(self, exported: etarena.ExportedModel, method: str = "forward") -> None:
        self.section = exported.plan(method)
        self.plan = emitted_plan(exported, method)
        self.place = place(self.section)
        self.position = {value.index: i for i, value in enumerate(self.section.values)}
        self.errors: list[str] = []
        self.paths = 0
        self.steps = [instruction.instr_args for instruction in self.plan.chains[0].instructions]
        self.stacks = {
            self.section.values[self.position[call.args[0]]].storage
            for call in self.steps
            if isinstance(call, KernelCall) and self.plan.operators[call.op_index].name == STACK
        }
        self._run()

    def _run(self) -> None:
        pending = [_Walk(0, {}, {}, ())]
        while pending:
            walk = pending.pop()
            length = 0
            while walk.position < len(self.steps) and length < LONGEST_WALK:
                length += 1
                fork = self._step(walk)
                if fork is not None:
                    pending.append(fork)
            for index in self.plan.outputs:
                self._read(walk, index, "the caller")
            self.paths += 1

    def _step(self, walk: _Walk) -> _Walk | None:
        call = self.steps[walk.position]
        label = self.section.labels[walk.position]
        walk.position += 1
        if isinstance(call, JumpFalseCall):
            self._read(walk, call.cond_value_index, label)
            taken = call.destination_instruction
            if walk.decisions.count(True) >= 6:  # loops: enough rounds
                return None
            fork = _Walk(taken, dict(walk.memory), dict(walk.points_at), (*walk.decisions, True), walk.written)
            return fork if taken != walk.position else None
        if isinstance(call, MoveCall):
            walk.points_at[call.move_to] = walk.points_at.get(call.move_from, call.move_from)
        else:
            reads, writes = self._effects(call)
            for index in reads:
                self._read(walk, index, label)
            for index in writes:
                self._write(walk, index)
        return None

    def _effects(self, call: KernelCall | DelegateCall) -> tuple[list[int], list[int]]:
        """Tensors that a call reads, and those it writes."""
        if isinstance(call, DelegateCall):
            made = self._made_by_delegate(call)
            return [i for i in self._tensors(call.args) if i not in made], sorted(made)
        operator = self.plan.operators[call.op_index]
        if operator.name == VIEW:
            return [call.args[0]], []
        if operator.name in WRITTEN_FIRST:
            return self._tensors([index for index in call.args if index != call.args[0]]), [call.args[0]]
        if operator.name.startswith("executorch_prim::"):
            return self._tensors(call.args), []
        (schema,) = [
            schema
            for schema in torch._C._jit_get_schemas_for_operator(operator.name)
            if schema.overload_name == operator.overload
        ]
        out = [i for i, argument in enumerate(schema.arguments) if argument.is_out]
        changed = [
            i for i, argument in enumerate(schema.arguments) if argument.alias_info and argument.alias_info.is_write
        ]
        given = call.args[: len(schema.arguments)]
        reads = self._tensors([index for i, index in enumerate(given) if i not in out])
        return reads, self._tensors([given[i] for i in {*out, *changed}])

    def _made_by_delegate(self, call: DelegateCall) -> set[int]:
        """Arguments that no earlier instruction and no caller has filled: the results."""
        before = {index for step in self.steps[: self.steps.index(call)] for index in self._touched(step)}
        filled = before | {*self.plan.inputs}
        return {i for i in self._tensors(call.args) if i not in filled and self._is_planned(i)}

    def _touched(self, step: object) -> Sequence[int]:
        return self._tensors(step.args) if isinstance(step, KernelCall | DelegateCall) else ()

    def _tensors(self, arguments: Sequence[int]) -> list[int]:
        found = []
        for index in arguments:
            value = self.plan.values[index].val
            if isinstance(value, Tensor):
                found.append(index)
            elif isinstance(value, TensorList | OptionalTensorList):
                found.extend(item for item in value.items if item >= 0)
        return found

    def _is_planned(self, index: int) -> bool:
        return index in self.position and self.section.values[self.position[index]].storage in self.place

    def _words(self, walk: _Walk, index: int) -> tuple[int, range] | None:
        index = walk.points_at.get(index, index)
        if not self._is_planned(index) or not isinstance(self.plan.values[index].val, Tensor):
            return None
        storage = self.section.values[self.position[index]].storage
        return storage, range(*self.place[storage])

    def _read(self, walk: _Walk, index: int, reader: str) -> None:
        found = self._words(walk, index)
        if found is None:
            return
        storage, words = found
        if storage in self.stacks - walk.written:
            return  # a stack of no rows: the loop that fills it never ran
        for word in words:
            holder = walk.memory.get(word)
            if holder != storage:
                name = self.section.values[self.position[walk.points_at.get(index, index)]].name
                self.errors.append(f"{reader} at {walk.position - 1} reads {name}: word {word} holds {holder}")

    def _write(self, walk: _Walk, index: int) -> None:
        found = self._words(walk, index)
        if found is not None:
            storage, words = found
            walk.memory.update(dict.fromkeys(words, storage))
            walk.written |= {storage}
