"""Random trees of blocks for static plans, and a machine that runs them byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from etarena.static.storages import Storages
from etarena.static.timeline import Block, Branches, Loop, Timeline, Touch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from etarena.static.placing import Request


class Tree:
    """Builds a time line as the flattening of a graph does: values are made once, and known where they were made."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.storages = Storages()
        self.position = 0
        self.blocks = 0

    def step(self) -> int:
        self.position += 1
        return self.position

    def value(self, block: Block) -> int:
        number = len(self.storages)
        return self.storages.add_bytes(16 * self.draw(st.integers(1, 4)), f"v{number}", block.number)

    def some(self, known: list[int]) -> tuple[int, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(known), max_size=3))) if known else ()

    def inner(self) -> Block:
        self.blocks += 1
        return Block(self.blocks, self.position + 1)

    def fill(self, block: Block, known: list[int], depth: int) -> list[int]:
        """Append random work; returns all values that may be read at its end."""
        known = list(known)
        kinds = ["touch", "touch", "touch", "branches", "loop"] if depth else ["touch"]
        for kind in self.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
            known.append({"touch": self.touch, "branches": self.branches, "loop": self.loop}[kind](block, known, depth))
        return known

    def touch(self, block: Block, known: list[int], _depth: int) -> int:
        made = self.value(block)
        block.items.append(Touch(self.step(), (*self.some(known), made), (made,)))
        return made

    def branches(self, block: Block, known: list[int], depth: int) -> int:
        position, predicate = self.step(), self.some(known)
        inside, results = [], []
        for _ in range(2):
            inner = self.inner()
            self.fill(inner, known, depth - 1)
            results.append(self.touch(inner, known, 0))
            self.step()
            inner.end, inner.last_number = self.position + 1, self.blocks
            inside.append(inner)
        joined = self.storages.join(results, block.number, "joined")
        block.items.append(Branches(position, predicate, inside[0], inside[1], (set(), set())))
        return joined

    def loop(self, block: Block, known: list[int], depth: int) -> int:
        carried = self.value(block)
        block.items.append(Touch(self.step(), (*self.some(known), carried), (carried,)))
        inner = self.inner()
        inside = self.fill(inner, [*known, carried], depth - 1)
        inner.items.append(Touch(self.step(), (*self.some(inside), carried)))
        inner.end, inner.last_number = self.position + 1, self.blocks
        block.items.append(Loop(inner.start, (carried,), inner))
        return carried


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """A tree with inputs, branches, loops and outputs."""
    tree, block = Tree(draw), Block(0)
    inputs = [tree.value(block) for _ in range(draw(st.integers(0, 3)))]
    block.items.append(Touch(0, (), tuple(inputs)))
    known = tree.fill(block, inputs, 2)
    block.end = tree.step()
    outputs = tuple(dict.fromkeys(map(tree.storages.root, tree.some(known))))
    return Timeline(block, tree.storages, outputs, [], [], False)


class Machine:
    """Runs a time line along one path: a write marks all bytes of a storage, a read finds its own mark there."""

    def __init__(self, timeline: Timeline, places: Mapping[int, Request], random: Random) -> None:
        self.timeline, self.places, self.random = timeline, places, random
        self.memory: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        self.through(self.timeline.block)
        for storage in self.timeline.outputs:
            self.read(storage)

    def through(self, block: Block) -> None:
        for item in block.items:
            if isinstance(item, Touch):
                made = {self.root(storage) for storage in item.makes}
                for storage in item.uses:
                    if self.root(storage) not in made:
                        self.read(storage)
                for storage in item.makes:
                    self.write(storage)
                for storage in item.uses:  # operands are not overwritten before the instruction ends
                    self.read(storage)
            elif isinstance(item, Branches):
                for storage in item.predicate:
                    self.read(storage)
                self.through(self.random.choice((item.true, item.false)))
            else:
                for _ in range(self.random.randint(0, 3)):
                    self.through(item.body)

    def root(self, storage: int) -> int:
        return self.timeline.storages.root(storage)

    def bytes(self, storage: int) -> list[tuple[int, int]]:
        place = self.places[self.root(storage)]
        return [(place.pool, at) for at in range(place.offset, place.offset + place.nbytes)]

    def write(self, storage: int) -> None:
        self.memory.update(dict.fromkeys(self.bytes(storage), self.root(storage)))

    def read(self, storage: int) -> None:
        for byte in self.bytes(storage):
            assert self.memory.get(byte) == self.root(storage), f"{storage} was overwritten at {byte}"
