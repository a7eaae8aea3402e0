"""A machine that runs lists of `Step` on memory that values share as their lifetimes allow.

Every value has two words. A step reads all its `uses` but its `writes`; a write marks the words of a value with its
number and a version, a step that writes "in part" marks the first word only. Reading a word that was marked since, by
anybody else or by an older version, is an error. Which way jumps go is told by a list of decisions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from etarena.liveness import Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WORDS = 2
PARTIAL = "partial"  # label of a step that writes the first word of its last use


def place(life: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """First word of each value: first fit in the order of the values."""
    placed: dict[int, int] = {}
    for value, (first, last) in life.items():
        taken = [placed[other] for other in placed if life[other][0] < last and first < life[other][1]]
        word = 0
        while any(word < other + WORDS and other < word + WORDS for other in taken):
            word += 1
        placed[value] = word
    return placed


@dataclass
class Machine:
    """Runs `steps`; see above.

    Parameters
    ----------
    steps : sequence of Step
        The instructions.
    owner : mapping of int to int
        The value that owns the memory of each.
    words : mapping of int to int
        First word of each owner; empty if every value has words of its own.
    """

    steps: Sequence[Step]
    owner: Mapping[int, int]
    words: Mapping[int, int] = field(default_factory=dict)

    def run(self, decisions: Sequence[bool], outputs: Iterable[int] = (), limit: int = 400) -> list[str]:
        """Run once; returns what went wrong. Also sets `trace`, the positions that were run."""
        self.memory: dict[int, tuple[int, int]] = {}
        self.expected: dict[int, dict[int, tuple[int, int]]] = {}
        self.points_at: dict[int, int] = {}
        self.trace: list[int] = []
        errors: list[str] = []
        coming = list(decisions)
        position = 0
        while position < len(self.steps) and len(self.trace) < limit:
            step = self.steps[position]
            self.trace.append(position)
            if step.target is not None:
                errors += [self._read(value, position) for value in step.uses]
                jumps = step.always or (bool(coming) and coming.pop(0)) or (not coming and step.target > position)
                position = step.target if jumps else position + 1
                continue
            if step.move is not None:
                self.points_at[step.move[1]] = self._tensor(step.move[0])
            reads = step.uses[:-1] if step.label == PARTIAL else [v for v in step.uses if v not in step.writes]
            errors += [self._read(value, position) for value in reads]
            for value in step.writes:
                self._write(value, range(WORDS))
            if step.label == PARTIAL:
                self._write(step.uses[-1], range(1))
            position += 1
        errors += [self._read(value, position) for value in outputs]
        return [error for error in errors if error]

    def _tensor(self, value: int) -> int:
        return self.points_at.get(value, value)

    def _word(self, value: int, offset: int) -> int:
        owner = self.owner[self._tensor(value)]
        return self.words[owner] + offset if self.words else owner * WORDS + offset

    def _write(self, value: int, offsets: Iterable[int]) -> None:
        owner = self.owner[self._tensor(value)]
        for offset in offsets:
            mark = (owner, len(self.trace))
            self.memory[self._word(value, offset)] = mark
            self.expected.setdefault(owner, {})[offset] = mark

    def _read(self, value: int, position: int) -> str:
        owner = self.owner[self._tensor(value)]
        for offset, mark in self.expected.get(owner, {}).items():
            found = self.memory[self._word(value, offset)]
            if found != mark:
                return f"step {position} reads value {value}: expected {mark}, found {found}"
        return ""


class Programs:
    """Random programs of steps, loops and branches, emitted as ExecuTorch emits them."""

    def __init__(self, seed: int, *, moves: bool) -> None:
        self.random = random.Random(seed)
        self.moves = moves
        self.steps: list[Step] = []
        self.n_values = self.random.randint(3, 8)
        self.jumps = 0
        self._block(3)

    def _block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.random()
            if depth and self.jumps < 5 and kind < 0.2:
                self._loop(depth - 1)
            elif depth and self.jumps < 5 and kind < 0.4:
                self._branch(depth - 1)
            else:
                self._operator()

    def _value(self) -> int:
        return self.random.randrange(self.n_values)

    def _operator(self) -> None:
        made = self._value()
        reads = tuple({self._value() for _ in range(self.random.randint(0, 2))} - {made})
        if self.random.random() < 0.15:
            self.steps.append(Step(PARTIAL, (*reads, made)))
        else:
            self.steps.append(Step("op", (*reads, made), writes=(made,)))

    def _jump(self, *, always: bool = False, uses: tuple[int, ...] = ()) -> int:
        self.jumps += not always
        self.steps.append(Step("jump", uses, target=0, always=always))
        return len(self.steps) - 1

    def _land(self, jump: int, target: int | None = None) -> None:
        step = self.steps[jump]
        target = len(self.steps) if target is None else target
        self.steps[jump] = Step(step.label, step.uses, target=target, always=step.always)

    def _loop(self, depth: int) -> None:
        is_checked_first = self.random.random() < 0.7
        head = len(self.steps)
        if is_checked_first:
            self._operator()
            leave = self._jump(uses=(self._value(),))
            self._block(depth)
            self._land(self._jump(always=True), head)
            self._land(leave)
        else:
            self._block(depth)
            self._land(self._jump(uses=(self._value(),)), head)

    def _branch(self, depth: int) -> None:
        result = self._fresh() if self.moves else None
        skip = self._jump(uses=(self._value(),))
        self._side(depth, result)
        leave = self._jump(always=True)
        self._land(skip)
        self._side(depth, result)
        self._land(leave)
        if result is not None:
            made = self._value()
            self.steps.append(Step("op", (result, made), writes=(made,)))

    def _side(self, depth: int, result: int | None) -> None:
        self._block(depth)
        if result is not None:
            own = self._fresh()
            self.steps.append(Step("op", (own,), writes=(own,)))
            source = own if self.random.random() < 0.7 else self._value()
            self.steps.append(Step("move", move=(source, result)))

    def _fresh(self) -> int:
        """A value that no other step picks."""
        self.fresh = getattr(self, "fresh", 100) + 1
        return self.fresh
