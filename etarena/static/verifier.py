"""Proof that the plan of a finished program is sound, from its instructions: over branches, loops and moves.

It shares nothing with the planner: not the graph, not its time line, not its lives. Stock ExecuTorch checks the top
level of a graph only, by the same lifetimes that its planner used.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from executorch.exir.schema import ExecutionPlan, Program, Tensor

from ..allocator.errors import InputTypeError, PlanError
from .machine import Home, Machine, bits
from .references import check_references

__all__ = ["StaticFault", "find_faults", "verify"]

Source: TypeAlias = "Program | bytes"


@dataclass(frozen=True)
class StaticFault:
    """One fault of a plan: the method, the instruction (-1: none), and a sentence with the numbers."""

    method: str
    instruction: int
    message: str

    def __str__(self) -> str:
        where = f", instruction {self.instruction}" if self.instruction >= 0 else ""
        return f"method {self.method!r}{where}: {self.message}"


def verify(program: Source, *, shared_memory: bool = False) -> None:
    """Raise if the plan of a program is wrong.

    Parameters
    ----------
    program : Program or bytes
        A program as ExecuTorch emits it, or a .pte file, in which tensors have their places.
    shared_memory : bool, default False
        Whether the host gives all methods the same memory, so that no method may write over another's buffers.

    Raises
    ------
    PlanError
        Two values that are needed at one time share bytes, a value is read where nothing put it, or one does not lie
        within its memory; the message has the first fault and their number. Or the program is damaged.
    ExportError
        An operator is unknown to torch, so that nothing says which of its tensors it writes.
    """
    faults = find_faults(program, shared_memory=shared_memory)
    if faults:
        raise PlanError(f"{faults[0]} ({len(faults)} fault{'s' * (len(faults) > 1)} in all)")


def find_faults(program: Source, *, shared_memory: bool = False) -> list[StaticFault]:
    """All faults of a program's plan; parameters as for `verify`.

    Raises
    ------
    PlanError
        The program is damaged: no lifetimes can be told.
    ExportError
        An operator is unknown to torch, so that nothing says which of its tensors it writes.
    """
    methods = _read(program).execution_plan
    if not methods:
        raise PlanError("the program has no method")
    for plan in methods:
        check_references(plan)
    checks = [_Check(plan) for plan in methods]
    faults = [fault for check in checks for fault in check.faults()]
    if shared_memory:
        for check in checks:
            for other in checks:
                if other is not check:
                    faults += check.clashes(other)
    return faults


def _read(program: Source) -> Program:
    if isinstance(program, Program):
        return program
    if isinstance(program, bytes | bytearray | memoryview):
        from executorch.exir._serialize._program import deserialize_pte_binary

        try:
            return deserialize_pte_binary(bytes(program)).program
        except Exception as error:
            raise PlanError(f"the bytes are no ExecuTorch program: {type(error).__name__}: {error}") from error
    raise InputTypeError(f"expected an ExecuTorch Program or the bytes of a .pte file, got {type(program).__name__}")


class _Check:
    """The check of one method; sets of values are the bits of integers."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.machine = Machine(plan)
        self.homes = self.machine.homes
        self._found: dict[tuple[str, object], StaticFault] = {}
        self._stacked = {value for at in range(len(self.machine.steps)) for value in self.machine.stacked(at)}
        self._inputs = {index for index in plan.inputs if index in self.homes}
        self.state: set[int] = set()
        for index in self.homes:
            if index not in self._inputs and self._is_state(index):
                self.state.add(index)
        self._alias = {index: index for index in self.homes}
        self._owners_of: dict[int, frozenset[int]] = {}

    def faults(self) -> list[StaticFault]:
        self._check_bounds()
        points = self._points()
        wanted = self._wanted(points)
        reached = self._reached()
        for position in range(len(self.machine.steps)):
            self._check_overlaps(position, wanted[position] & reached[position], points[position])
        self._check_overlaps(len(self.machine.steps), wanted[-1] & reached[-1], points[-1])
        return list(self._found.values())

    def clashes(self, other: "_Check") -> Iterator[StaticFault]:
        """Buffers of this method in the way of another, which has the same memory."""
        own = {self.homes[index] for index in self.state}
        kept = {other.homes[index] for index in other.state}
        for home in own - kept:
            for index, elsewhere in other.homes.items():
                if home.meets(elsewhere):
                    yield StaticFault(
                        other.plan.name,
                        -1,
                        f"value {index} shares bytes from {max(home.start, elsewhere.start)} of memory id "
                        f"{home.memory_id} with a buffer that method {self.plan.name!r} keeps",
                    )
                    break

    def _is_state(self, index: int) -> bool:
        """Whether a planned value keeps its contents: emitted before the last input, or with contents of its own.

        One of the latter that lies where another lies is a view of it, which ExecuTorch fills as well.
        """
        tensor = self.plan.values[index].val
        assert isinstance(tensor, Tensor)
        if index < max(self.plan.inputs, default=-1):
            return True
        info = tensor.extra_tensor_info
        filled = tensor.data_buffer_idx > 0 or (info is not None and bool(info.fully_qualified_name))
        return filled and all(self.homes[other] != self.homes[index] for other in self.state)

    def _fault(self, kind: str, key: object, position: int, message: str) -> None:
        self._found.setdefault((kind, key), StaticFault(self.plan.name, position, message))

    def _check_bounds(self) -> None:
        sizes = self.plan.non_const_buffer_sizes
        for index, home in self.homes.items():
            room = sizes[home.memory_id] if 0 < home.memory_id < len(sizes) else 0
            if home.end > room and home.end > home.start:
                self._fault(
                    "bounds",
                    index,
                    -1,
                    f"value {index} ends at byte {home.end} of memory id {home.memory_id}, which has {room} bytes",
                )

    def _points(self) -> list[dict[int, frozenset[int]]]:
        """Before every instruction, the homes that moved values and views may be in; others are in their own."""
        machine = self.machine
        moved = {pair[1] for at in range(len(machine.steps)) if (pair := machine.moved(at)) is not None}
        points: list[dict[int, frozenset[int]]] = [{} for _ in machine.successors]
        points[0] = {value: self._own(value) for value in moved}
        pending = [0] if moved else []
        while pending:
            position = pending.pop()
            after = points[position]
            if position < len(machine.steps) and (pair := machine.moved(position)) is not None:
                source, destination = pair
                after = {**after, destination: after.get(source, self._own(source))}
            for successor in machine.successors[position]:
                before = points[successor]
                joined = {value: before.get(value, frozenset()) | homes for value, homes in after.items()}
                if joined != before:
                    points[successor] = joined
                    pending.append(successor)
        return points

    def _own(self, value: int) -> frozenset[int]:
        return frozenset((value,)) if value in self.homes else frozenset()

    def _wanted(self, points: Sequence[dict[int, frozenset[int]]]) -> list[int]:
        """Before every instruction, what may be read later before all of it is overwritten."""
        machine = self.machine
        born = defaultdict(list)
        for index in self.homes:
            if index not in self._inputs and index not in self.state:
                born[machine.created[index]].append(index)
        always = sum(1 << index for index in self.state)
        wanted = [0] * len(machine.successors)
        wanted[-1] = always | sum(1 << index for index in set(self.plan.outputs))
        pending = list(range(len(machine.steps)))
        while pending:
            position = pending.pop()
            later = 0
            for successor in machine.successors[position]:
                later |= wanted[successor]
            now = self._before(position, later) | always
            for index in born.get(position, ()):
                if now >> index & 1:
                    now &= ~(1 << index)
                    for owner in self._owners(index, position, points):
                        now |= 1 << owner
            if now != wanted[position]:
                wanted[position] = now
                pending.extend(machine.predecessors[position])
        return wanted

    def _before(self, position: int, later: int) -> int:
        machine = self.machine
        pair = machine.moved(position)
        if pair is not None:
            source, destination = pair
            if later >> destination & 1:
                later = later & ~(1 << destination) | 1 << source
            return later
        for index in machine.overwritten(position):
            later &= ~(1 << index)
        written = machine.overwritten(position)
        for index in machine.touched(position):
            if index not in written:
                later |= 1 << index
        return later

    def _owners(self, view: int, created: int, points: Sequence[dict[int, frozenset[int]]]) -> frozenset[int]:
        """What wrote the bytes that a view without an instruction shows, when it came into being."""
        if view in self._stacked:
            return frozenset()
        known = self._owners_of.get(view)
        if known is None:
            known = self._owners_of[view] = self._find_owners(view, created, points)
            for owner in known:
                self._join(view, owner)
            if not known:
                self._fault(
                    "nothing",
                    view,
                    created,
                    f"value {view} at byte {self.homes[view].start} of memory id {self.homes[view].memory_id} is read, "
                    "but nothing put it there",
                )
        return known

    def _find_owners(self, view: int, created: int, points: Sequence[dict[int, frozenset[int]]]) -> frozenset[int]:
        machine, home = self.machine, self.homes[view]
        owners: set[int] = set()
        seen: set[int] = set()
        pending = list(machine.predecessors[created])
        if created == 0:
            owners |= self._placed_before(home)
        while pending:
            position = pending.pop()
            if position in seen:
                continue
            seen.add(position)
            writes = (*machine.overwritten(position), *machine.changed(position))
            held = {place for value in writes for place in points[position].get(value, self._own(value))}
            writers = {place for place in held if place != view and self.homes[place].meets(home)}
            if writers:
                owners |= {place for place in writers if self.homes[place].holds(home)}
                continue
            pending.extend(machine.predecessors[position])
            if position == 0:
                owners |= self._placed_before(home)
        return frozenset(owners)

    def _placed_before(self, home: Home) -> set[int]:
        return {index for index in (*self._inputs, *self.state) if self.homes[index].holds(home)}

    def _reached(self) -> list[int]:
        """Before every instruction, what may have been written, or pointed somewhere, on the way there."""
        machine = self.machine
        given = sum(1 << index for index in {*self._inputs, *self.state})
        born: dict[int, int] = defaultdict(int)
        for index in self._owners_of:
            born[machine.created[index]] |= 1 << index
        before = [given] * len(machine.successors)
        before[0] |= born.get(0, 0)
        pending = list(range(len(machine.steps) - 1, -1, -1))
        while pending:
            position = pending.pop()
            if position == len(machine.steps):
                continue
            after = before[position]
            pair = machine.moved(position)
            written = (pair[1],) if pair is not None else (*machine.overwritten(position), *machine.changed(position))
            for index in written:
                after |= 1 << index
            for successor in machine.successors[position]:
                arrived = after | born.get(successor, 0)
                if arrived & ~before[successor]:
                    before[successor] |= arrived
                    pending.append(successor)
        return before

    def _check_overlaps(self, position: int, alive: int, points: dict[int, frozenset[int]]) -> None:
        """Check that no two values that are alive before or during an instruction share bytes."""
        places: dict[int, int] = {}
        values = list(bits(alive))
        if position < len(self.machine.steps):
            values += self.machine.touched(position)
        for value in values:
            for place in points.get(value, self._own(value)):
                if self.homes[place].end > self.homes[place].start:
                    places.setdefault(place, value)
        order = sorted(places, key=lambda place: (self.homes[place].memory_id, self.homes[place].start))
        open_places: list[int] = []
        for place in order:
            home = self.homes[place]
            open_places = [other for other in open_places if self.homes[other].meets(home)]
            for other in open_places:
                if places[other] != places[place] and self._root(other) != self._root(place):
                    self._overlap(position, other, place)
            open_places.append(place)

    def _overlap(self, position: int, one: int, other: int) -> None:
        first, second = self.homes[one], self.homes[other]
        label = self.machine.steps[position].label if position < len(self.machine.steps) else "the end"
        self._fault(
            "overlap",
            frozenset((one, other)),
            position,
            f"values {one} and {other} are both needed at {label} and share bytes "
            f"{max(first.start, second.start)} to {min(first.end, second.end)} of memory id {first.memory_id}",
        )

    def _root(self, index: int) -> int:
        while self._alias[index] != index:
            index = self._alias[index]
        return index

    def _join(self, one: int, other: int) -> None:
        self._alias[self._root(one)] = self._root(other)
