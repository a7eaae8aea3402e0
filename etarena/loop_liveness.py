"""Where values of a loop are alive: a data-flow analysis over the jumps of a method.

A storage is alive before an instruction if control flow may have touched it on the way there, and may go on to read it
before all of it is overwritten. Both are found by iterating to a fixed point over sets of storages, kept as the bits of
one integer per instruction (the "live variables" and "reaching definitions" of Aho, Lam, Sethi and Ullman,
"Compilers: Principles, Techniques, and Tools", section 9.2).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

__all__ = ["JumpingStep", "loop_lives"]


class JumpingStep(Protocol):
    """What is read of an instruction."""

    @property
    def target(self) -> int | None:
        """Instruction that a jump may go to."""

    @property
    def always(self) -> bool:
        """Whether the jump is always taken."""


def loop_lives(
    steps: Sequence[JumpingStep],
    touched: Mapping[int, Collection[int]],
    written: Mapping[int, Collection[int]],
    returned: Collection[int] = (),
) -> dict[int, tuple[int, int]]:
    """The smallest half-open range of positions that covers everywhere a storage is alive or touched.

    Parameters
    ----------
    steps : sequence of JumpingStep
        The instructions in program order.
    touched : mapping of int to collection of int
        For every storage of interest, the positions at which it may be read or written.
    written : mapping of int to collection of int
        Those at which it is overwritten as a whole without being read.
    returned : collection of int
        Storages that are read after the last instruction.
    """
    owners = list(touched)
    end = len(steps)
    touches, reads, kills = ([0] * (end + 1) for _ in range(3))
    for bit, owner in enumerate(owners):
        reads[end] |= (owner in returned) << bit
        for position in touched[owner]:
            touches[position] |= 1 << bit
            if position in written[owner]:
                kills[position] |= 1 << bit
            else:
                reads[position] |= 1 << bit
    successors = [*(_successors(position, step) for position, step in enumerate(steps)), []]
    before = _reached(successors, touches)
    wanted = _wanted(successors, reads, kills)
    lives: dict[int, tuple[int, int]] = {}
    for position in range(end):
        alive = (before[position] & wanted[position]) | touches[position]
        while alive:
            bit = alive.bit_length() - 1
            alive ^= 1 << bit
            first, _ = lives.get(owners[bit], (position, position))
            lives[owners[bit]] = (first, position + 1)
    return lives


def _successors(position: int, step: JumpingStep) -> list[int]:
    if step.target is None:
        return [position + 1]
    return [step.target] if step.always else [position + 1, step.target]


def _reached(successors: Sequence[Sequence[int]], touches: Sequence[int]) -> list[int]:
    """For every position, what may have been touched before it."""
    before = [0] * len(touches)
    pending = list(range(len(touches) - 1, -1, -1))
    while pending:
        position = pending.pop()
        after = before[position] | touches[position]
        for successor in successors[position]:
            if after & ~before[successor]:
                before[successor] |= after
                pending.append(successor)
    return before


def _wanted(successors: Sequence[Sequence[int]], reads: Sequence[int], kills: Sequence[int]) -> list[int]:
    """For every position, what may be read from there on before it is overwritten."""
    predecessors: list[list[int]] = [[] for _ in reads]
    for position, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(position)
    wanted = list(reads)
    pending = list(range(len(reads)))
    while pending:
        position = pending.pop()
        later = 0
        for successor in successors[position]:
            later |= wanted[successor]
        now = reads[position] | (later & ~kills[position])
        if now != wanted[position]:
            wanted[position] = now
            pending.extend(predecessors[position])
    return wanted
