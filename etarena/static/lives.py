"""Where on the time line each storage is alive, gaps included.

Walked backwards, a storage begins to be needed at its last use and ends at what makes it. Through the two branches of a
``cond`` it is followed separately: what only one of them reads is dead in the other, although that comes later in the
instructions. What a loop reads from outside, and what it carries, lives through all of its rounds; everything else in
its body is made anew in each round and lives only there (Appel, "Modern Compiler Implementation", chapter 10, for
programs whose jumps are all structured).
"""

from collections.abc import Iterable

from .timeline import Block, Branches, Loop, Timeline, Touch

__all__ = ["Pieces", "live_pieces"]

Pieces = dict[int, list[tuple[int, int]]]
"""For every storage that is ever alive the half-open ranges of positions where it is, ascending and apart."""


def live_pieces(timeline: Timeline) -> Pieces:
    """Find the pieces of every storage's life."""
    walk = _Backwards(timeline)
    end = timeline.block.end
    walk.through(timeline.block, dict.fromkeys(timeline.outputs, end))
    storages = timeline.storages
    merged: Pieces = {}
    for storage, pieces in walk.pieces.items():
        if storages.persistent[storage]:
            merged[storage] = [(0, end)]
        else:
            merged[storage] = _merged(pieces) if len(pieces) > 1 else pieces
    return merged


def _merged(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    pieces.sort()
    joined = [pieces[0]]
    for first, last in pieces[1:]:
        if first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


class _Backwards:
    def __init__(self, timeline: Timeline) -> None:
        self.pieces: dict[int, list[tuple[int, int]]] = {}
        self._root = timeline.storages.root
        self._block = timeline.storages.block

    def _live(self, storage: int, first: int, last: int) -> None:
        if first < last:
            self.pieces.setdefault(storage, []).append((first, last))

    def through(self, block: Block, needed: dict[int, int]) -> dict[int, int]:
        """Go through a block; `needed` maps what is alive after it to where that life ends, and is changed.

        Returns what is alive before it.
        """
        root, live = self._root, self._live
        for item in reversed(block.items):
            if isinstance(item, Touch):
                after = item.position + 1
                for storage in item.uses:
                    needed.setdefault(root(storage), after)
                for storage in item.makes:
                    storage = root(storage)
                    live(storage, item.position, needed.pop(storage, after))
            elif isinstance(item, Branches):
                needed = self._branches(item, needed)
            else:
                needed = self._loop(item, needed)
        for storage, last in needed.items():
            live(storage, block.start, last)
        return dict.fromkeys(needed, block.start)

    def _branches(self, item: Branches, needed: dict[int, int]) -> dict[int, int]:
        for storage, last in needed.items():
            self._live(storage, item.false.end, last)
        only_true, only_false = (set(map(self._root, only)) for only in item.only)
        before: set[int] = set()
        for block, elsewhere in ((item.true, only_false), (item.false, only_true)):
            inside = {storage: block.end for storage in needed if storage not in elsewhere}
            before |= self.through(block, inside).keys()
        before.update(map(self._root, item.predicate))
        return dict.fromkeys(before, item.position + 1)

    def _loop(self, item: Loop, needed: dict[int, int]) -> dict[int, int]:
        body = item.body
        for storage, last in needed.items():
            self._live(storage, body.end, last)
        outer = {storage for storage in self._touched(body) if not self._is_inside(storage, body)}
        before = self.through(body, dict.fromkeys({*needed, *outer, *map(self._root, item.results)}, body.end))
        return dict.fromkeys(before, body.start)

    def _is_inside(self, storage: int, body: Block) -> bool:
        return body.number <= self._block[storage] <= body.last_number

    def _touched(self, block: Block) -> Iterable[int]:
        """Everything that a block or a block inside it touches."""
        for item in block.items:
            if isinstance(item, Touch):
                yield from map(self._root, item.uses)
            elif isinstance(item, Branches):
                yield from map(self._root, item.predicate)
                yield from self._touched(item.true)
                yield from self._touched(item.false)
            else:
                yield from self._touched(item.body)
