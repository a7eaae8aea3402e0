"""The time line of a method: one sequence of positions for the whole tree of its graphs.

A `Block` is a part of it that runs as a whole; the two branches of a ``cond`` are blocks of which one runs, the body of
a loop is one that runs any number of times.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from torch.fx import GraphModule

from .storages import Storages

__all__ = ["Block", "Branches", "Item", "Loop", "Scratch", "Timeline", "Touch"]


@dataclass(slots=True)
class Touch:
    """One instruction: storages it reads or writes, and those of them that it makes."""

    position: int
    uses: tuple[int, ...]
    makes: tuple[int, ...] = ()


@dataclass(slots=True)
class Branches:
    """Two blocks of which one runs; `only` are storages that reach the end of one of them alone."""

    position: int
    predicate: tuple[int, ...]
    true: "Block"
    false: "Block"
    only: tuple[set[int], set[int]]


@dataclass(slots=True)
class Loop:
    """A block that runs again and again; `results` hold what is carried, from before the first round."""

    position: int
    results: tuple[int, ...]
    body: "Block"


Item: TypeAlias = Touch | Branches | Loop


@dataclass(slots=True)
class Block:
    """What runs one after the other, at the positions from `start` up to `end`; blocks inside have higher numbers."""

    number: int
    start: int = 0
    end: int = 0
    last_number: int = 0
    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Scratch:
    """Bytes that a delegate needs while it runs."""

    delegate: str
    name: str
    storage: int


@dataclass
class Timeline:
    """A flattened tree: the outermost block, its storages, the delegates' scratch, and every graph in the tree."""

    block: Block
    storages: Storages
    outputs: tuple[int, ...]
    scratch: list[Scratch]
    graphs: list[GraphModule]
    uses_xnnpack: bool
