"""Lifetimes of storages, from the instructions that were emitted and nothing else.

Plain data in and out: a method is a list of `Step`, a value is its EValue index. Values that share memory form one
*storage*. A storage lives from the first instruction that touches any of its values to one past the last one
(half-open), in program order, which is conservative for the forward jumps of a branch. Around a loop, a storage also
lives wherever its contents may still be read by an instruction that control flow reaches (`loop_liveness`): what every
round writes before it reads it lives only between the two, what is carried or only read lives through all of the loop.

A move makes one EValue point at another's tensor. Where the sources of a destination are never alive together and die
with the move (the results of the two branches of a ``cond``), sources and destination become one storage. Everywhere
else the uses of the destination count as uses of every source that can reach it.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .loop_liveness import loop_lives

__all__ = ["Lifetimes", "MovedOutputError", "Step", "analyse"]


class MovedOutputError(Exception):
    """An output would point at one of several memories, depending on the branch taken; `value` is its index."""

    def __init__(self, value: int) -> None:
        super().__init__(f"value {value} is an output that a move points at memory which something else still uses")
        self.value = value


@dataclass(frozen=True)
class Step:
    """One emitted instruction, reduced to what memory planning needs.

    Parameters
    ----------
    label : str
        Operator, delegate or kind of jump, for people.
    uses : tuple of int
        Tensors that the instruction may read or write, lists unfolded.
    aliases : tuple of (int, int)
        Pairs of tensors that share memory once the instruction has run.
    move : (int, int), optional
        Source and destination of a move.
    target : int, optional
        Instruction that a jump may go to.
    writes : tuple of int
        Those of `uses` of which the instruction writes every byte without having read one.
    always : bool, default False
        Whether the jump is always taken.
    """

    label: str
    uses: tuple[int, ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()
    move: tuple[int, int] | None = None
    target: int | None = None
    writes: tuple[int, ...] = ()
    always: bool = False


@dataclass(frozen=True)
class Lifetimes:
    """What `analyse` found.

    Parameters
    ----------
    owner : dict of int to int
        For every tensor, the one that owns the memory it uses.
    life : dict of int to (int, int)
        Half-open life of each owner that is used.
    definition : dict of int to int
        The instruction that first touches each of these, if any does: for planned memory, the one that writes it.
    """

    owner: dict[int, int]
    life: dict[int, tuple[int, int]]
    definition: dict[int, int]


@dataclass
class _Move:
    position: int
    source: int
    destination: int


@dataclass
class _Storages:
    """Disjoint sets of values, each with the positions at which it is touched; `root` finds the owner of a set."""

    fixed: Collection[int]
    parent: dict[int, int] = field(default_factory=dict)
    touched: dict[int, set[int]] = field(default_factory=dict)

    def root(self, value: int) -> int:
        while self.parent[value] != value:
            self.parent[value] = self.parent[self.parent[value]]
            value = self.parent[value]
        return value

    def join(self, one: int, other: int) -> None:
        """One storage from two. Memory that is not ours owns; otherwise the value that was emitted first does."""
        one, other = self.root(one), self.root(other)
        if one == other:
            return
        owner, member = sorted((one, other), key=lambda value: (value not in self.fixed, value))
        self.parent[member] = owner
        self.touched[owner] |= self.touched.pop(member)


def analyse(
    steps: Sequence[Step],
    tensors: Mapping[int, Hashable],
    outputs: Collection[int] = (),
    fixed: Collection[int] = (),
    stops: Collection[int] = (),
) -> Lifetimes:
    """Find which values share memory, and when each storage is alive.

    Parameters
    ----------
    steps : sequence of Step
        The instructions in program order.
    tensors : mapping of int to hashable
        Every tensor, with what its bytes depend on (dtype and sizes): only tensors whose entries are equal are joined
        into one storage by a move.
    outputs : collection of int
        Tensors that the method returns: alive to the end.
    fixed : collection of int
        Tensors whose memory exists outside the method (inputs, constants, mutable buffers).
    stops : collection of int
        Instructions at which memory is planned anew. What a loop around one touches lives through all of the loop: in
        its next round, the loop comes back to what lies before the stop, in memory that was planned at it.

    Returns
    -------
    Lifetimes
        Storages that no instruction touches and that are no output have no entry in `life`.

    Raises
    ------
    MovedOutputError
        If an output can end up in one of several memories that cannot be one storage.
    """
    storages = _Storages(fixed, {value: value for value in tensors}, {value: set() for value in tensors})
    moves = _collect(steps, storages)
    reaching = _join_moves(moves, storages, tensors)
    _check_outputs(reaching, storages, outputs)
    _spread_uses(reaching, storages)
    life = _lives(storages, len(steps), outputs)
    _extend_over_loops(steps, storages, life, outputs)
    _extend_over_stops(_loops(steps), storages, life, stops)
    definition = {root: min(touched) for root, touched in storages.touched.items() if touched}
    return Lifetimes({value: storages.root(value) for value in tensors}, life, definition)


def _collect(steps: Sequence[Step], storages: _Storages) -> list[_Move]:
    moves = []
    for position, step in enumerate(steps):
        for value in step.uses:
            storages.touched[storages.root(value)].add(position)
        for one, other in step.aliases:
            storages.join(one, other)
        if step.move is not None:
            source, destination = step.move
            storages.touched[storages.root(source)].add(position)
            moves.append(_Move(position, source, destination))
    return moves


def _join_moves(moves: list[_Move], storages: _Storages, tensors: Mapping[int, Hashable]) -> list[_Move]:
    """Join sources and destination where that is safe; return the moves that must stay moves."""
    into: dict[int, list[_Move]] = {}
    for move in moves:
        into.setdefault(storages.root(move.destination), []).append(move)
    reaching = []
    for group in into.values():
        if _can_join(group, storages, tensors):
            for move in group:
                storages.join(move.destination, move.source)
        else:
            reaching.extend(group)
    return reaching


def _can_join(group: list[_Move], storages: _Storages, tensors: Mapping[int, Hashable]) -> bool:
    destination = storages.root(group[0].destination)
    sources = [storages.root(move.source) for move in group]
    if any(root in storages.fixed for root in [destination, *sources]) or len({destination, *sources}) <= len(group):
        return False
    if len({tensors[value] for move in group for value in (move.source, move.destination)}) > 1:
        return False
    if any(max(storages.touched[source]) > move.position for source, move in zip(sources, group, strict=True)):
        return False
    spans = sorted((min(storages.touched[source]), move.position) for source, move in zip(sources, group, strict=True))
    if any(end >= start for (_, end), (start, _) in pairwise(spans)):
        return False
    return all(position > spans[-1][1] for position in storages.touched[destination])


def _check_outputs(reaching: list[_Move], storages: _Storages, outputs: Collection[int]) -> None:
    destinations = {storages.root(move.destination) for move in reaching}
    for value in outputs:
        if storages.root(value) in destinations:
            raise MovedOutputError(value)


def _spread_uses(reaching: list[_Move], storages: _Storages) -> None:
    """Count the uses of a destination as uses of its sources, along chains of moves, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for move in reaching:
            source, destination = (storages.touched[storages.root(value)] for value in (move.source, move.destination))
            size = len(source)
            source |= destination
            changed |= len(source) > size
    for move in reaching:
        root = storages.root(move.destination)
        first = min(other.position for other in reaching if storages.root(other.destination) == root)
        storages.touched[root] = {position for position in storages.touched[root] if position < first}


def _lives(storages: _Storages, n_steps: int, outputs: Collection[int]) -> dict[int, tuple[int, int]]:
    life = {root: (min(touched), max(touched) + 1) for root, touched in storages.touched.items() if touched}
    for value in outputs:
        root = storages.root(value)
        first, _ = life.get(root, (0, 0))
        life[root] = (first, n_steps)
    return life


def _extend_over_loops(
    steps: Sequence[Step], storages: _Storages, life: dict[int, tuple[int, int]], outputs: Collection[int]
) -> None:
    """Extend the life of what a loop touches to where its contents may be read in another round or after the loop."""
    loops = _loops(steps)
    if not loops:
        return
    inside = {position for start, end in loops for position in range(start, end + 1)}
    touched = {root: storages.touched[root] for root in life if not inside.isdisjoint(storages.touched[root])}
    written: dict[int, set[int]] = {root: set() for root in touched}
    for position, step in enumerate(steps):
        for root in _overwritten(step, storages):
            if root in written:
                written[root].add(position)
    returned = {storages.root(value) for value in outputs}
    for root, (first, last) in loop_lives(steps, touched, written, returned).items():
        life[root] = (min(life[root][0], first), max(life[root][1], last))


def _overwritten(step: Step, storages: _Storages) -> set[int]:
    """Storages that an instruction overwrites without reading them."""
    read = {storages.root(value) for value in step.uses if value not in step.writes}
    return {storages.root(value) for value in step.writes} - read


def _extend_over_stops(
    loops: list[tuple[int, int]], storages: _Storages, life: dict[int, tuple[int, int]], stops: Collection[int]
) -> None:
    stopping = [(start, end) for start, end in loops if any(start <= stop <= end for stop in stops)]
    changed = True
    while changed:
        changed = False
        for start, end in stopping:
            for root, (first, last) in life.items():
                if first <= end and last > start and any(start <= at <= end for at in storages.touched[root]):
                    extended = (min(first, start), max(last, end + 1))
                    changed |= extended != (first, last)
                    life[root] = extended


def _loops(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """First and last instruction of every loop: where a jump leads back to, and the jump."""
    return [(step.target, end) for end, step in enumerate(steps) if step.target is not None and step.target <= end]
