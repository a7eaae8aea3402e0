"""Traces of allocations: recorded from an arena, made from lifetimes, replayed on any heap.

The format is text: a header ``etarena-trace 1``, then one line per event, ``a SLOT BYTES`` or ``f SLOT``. Slots are
numbers that are free to be used again once freed.
"""

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .offset_heap import OffsetHeap
from .reference_heap import ReferenceHeap
from .trace import AllocationEvent

__all__ = ["ALLOCATORS", "Replay", "Step", "from_events", "from_lifetimes", "load", "replay", "save"]

HEADER = "etarena-trace 1"
CAPACITY = 1 << 46


class _Heap(Protocol):
    def alloc(self, nbytes: int, /) -> int: ...
    def free(self, offset: int, /) -> None: ...


ALLOCATORS: dict[str, Callable[[], _Heap]] = {
    "etarena": lambda: OffsetHeap(CAPACITY),
    "reference": lambda: ReferenceHeap(CAPACITY),
}


@dataclass(frozen=True)
class Step:
    """Allocate `nbytes` for a slot, or free the slot where `nbytes` is None."""

    slot: int
    nbytes: int | None


@dataclass(frozen=True)
class Replay:
    """What a replay needed: bytes, number of steps, and ns per pair of alloc and free with the overhead of Python."""

    allocator: str
    steps: int
    peak_live: int
    extent: int
    nanoseconds_per_pair: float

    @property
    def footprint(self) -> float:
        """Highest end of a block / peak of live bytes."""
        return self.extent / self.peak_live if self.peak_live else 1.0


def from_events(events: Iterable[AllocationEvent]) -> list[Step]:
    """The allocations and frees among recorded events; frees of blocks made before the recording are left out."""
    slots: dict[int, int] = {}
    spare: list[int] = []
    steps = []
    for event in events:
        if event.kind == "alloc":
            slot = heapq.heappop(spare) if spare else len(slots)
            slots[event.offset] = slot
            steps.append(Step(slot, event.nbytes))
        elif event.kind == "free" and event.offset in slots:
            slot = slots.pop(event.offset)
            heapq.heappush(spare, slot)
            steps.append(Step(slot, None))
    return steps


def from_lifetimes(sizes: Iterable[int], first: Iterable[int], last: Iterable[int]) -> list[Step]:
    """Allocate each buffer at its first position and free it at its last, which is the first it does not need."""
    events: list[tuple[int, int, int, int | None]] = []
    for slot, (nbytes, start, end) in enumerate(zip(sizes, first, last, strict=True)):
        events += [(start, 1, slot, nbytes), (end, 0, slot, None)] if end > start else []
    return [Step(slot, nbytes) for _, _, slot, nbytes in sorted(events, key=lambda event: event[:3])]


def save(steps: Iterable[Step], path: Path | str) -> None:
    """Write a trace."""
    lines = [f"f {step.slot}" if step.nbytes is None else f"a {step.slot} {step.nbytes}" for step in steps]
    Path(path).write_text("\n".join([HEADER, *lines, ""]))


def load(path: Path | str) -> list[Step]:
    """Read a trace.

    Raises
    ------
    ValueError
        No trace, or a line that makes no sense; names the line.
    """
    lines = Path(path).read_text().splitlines()
    if not lines or lines[0] != HEADER:
        raise ValueError(f"{path} is no allocation trace: its first line is not '{HEADER}'")
    steps: list[Step] = []
    live: set[int] = set()
    for number, line in enumerate(lines[1:], 2):
        try:
            steps.append(_parse(line.split(), live))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {line!r}: {error}") from None
    return steps


def _parse(words: list[str], live: set[int]) -> Step:
    """One line; `live` are the slots in use, which it updates."""
    if len(words) == 3 and words[0] == "a":
        slot, nbytes = int(words[1]), int(words[2])
        if slot in live or slot < 0 or nbytes < 0:
            raise ValueError("the slot is in use, or a number is negative")
        live.add(slot)
        return Step(slot, nbytes)
    if len(words) == 2 and words[0] == "f":
        if int(words[1]) not in live:
            raise ValueError("the slot is not in use")
        live.remove(int(words[1]))
        return Step(int(words[1]), None)
    raise ValueError("expected 'a SLOT BYTES' or 'f SLOT'")


def replay(steps: list[Step], allocator: str = "etarena") -> Replay:
    """Run a trace on a fresh heap, twice: for its extent, and for its time.

    Raises
    ------
    ValueError
        No such allocator.
    """
    if allocator not in ALLOCATORS:
        raise ValueError(f"no allocator {allocator!r}; there are {', '.join(sorted(ALLOCATORS))}")
    extent, peak = _extent(steps, ALLOCATORS[allocator]())
    heap = ALLOCATORS[allocator]()
    offsets: dict[int, int] = {}
    start = time.perf_counter_ns()
    for step in steps:
        if step.nbytes is None:
            heap.free(offsets[step.slot])
        else:
            offsets[step.slot] = heap.alloc(step.nbytes)
    elapsed = time.perf_counter_ns() - start
    return Replay(allocator, len(steps), peak, extent, elapsed / max(1, len(steps) / 2))


def _extent(steps: list[Step], heap: _Heap) -> tuple[int, int]:
    """Highest end of a block, and the peak of live bytes."""
    extent = live = peak = 0
    blocks: dict[int, tuple[int, int]] = {}
    for step in steps:
        if step.nbytes is None:
            offset, nbytes = blocks.pop(step.slot)
            heap.free(offset)
            live -= nbytes
            continue
        offset = heap.alloc(step.nbytes)
        blocks[step.slot] = (offset, step.nbytes)
        extent = max(extent, offset + step.nbytes)
        live += step.nbytes
        peak = max(peak, live)
    return extent, peak
