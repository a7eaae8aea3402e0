"""The heap the slow and obvious way: one table of blocks, searched from end to end. The other is tested against it."""

from .errors import ArenaFullError, Error

__all__ = ["ReferenceHeap"]


class ReferenceHeap:
    """Same interface and promises as `OffsetHeap`, but not the same offsets: takes the smallest gap that fits.

    Parameters
    ----------
    capacity : int
        Bytes.
    alignment : int, optional
        A power of two.
    """

    def __init__(self, capacity: int, alignment: int = 64) -> None:
        if capacity < 0 or not _is_power_of_two(alignment):
            raise ValueError(f"a heap of {capacity} bytes in granules of {alignment} bytes is out of range")
        self.capacity = capacity // alignment * alignment
        self.alignment = alignment
        self.blocks: dict[int, int] = {}  # offset -> bytes asked for
        self.made: dict[int, int] = {}  # offset -> number in order of allocation
        self.allocations = self.peak = 0

    @property
    def live(self) -> int:
        """Bytes asked for by the live blocks."""
        return sum(self.blocks.values())

    @property
    def top(self) -> int:
        """Nothing at or above this offset is in use."""
        return max((offset + self._round(nbytes) for offset, nbytes in self.blocks.items()), default=0)

    def gaps(self) -> list[tuple[int, int]]:
        """Free ranges ``(start, end)``, the last one up to the capacity."""
        found, end = [], 0
        for offset in sorted(self.blocks):
            if offset > end:
                found.append((end, offset))
            end = offset + self._round(self.blocks[offset])
        if end < self.capacity:
            found.append((end, self.capacity))
        return found

    def alloc(self, nbytes: int, alignment: int = 1) -> int:
        """Take a block; gives its offset."""
        if nbytes < 0 or not _is_power_of_two(alignment):
            raise ValueError(f"{nbytes} bytes with alignment {alignment} make no block")
        step = max(alignment, self.alignment)
        fits = [
            (end - start, -(-start // step) * step)
            for start, end in self.gaps()
            if -(-start // step) * step + self._round(nbytes) <= end
        ]
        if not fits:
            raise ArenaFullError(f"no room for {nbytes} bytes")
        offset = min(fits)[1]
        self.blocks[offset] = nbytes
        self.made[offset] = self.allocations
        self.allocations += 1
        self.peak = max(self.peak, self.live)
        return offset

    def free(self, offset: int) -> None:
        """Give a block back."""
        if offset not in self.blocks:
            raise Error(f"no live block starts at offset {offset}")
        del self.blocks[offset], self.made[offset]

    def size(self, offset: int) -> int:
        """Bytes that were asked for."""
        if offset not in self.blocks:
            raise Error(f"no live block starts at offset {offset}")
        return self.blocks[offset]

    def mark(self) -> int:
        """A point to which `rewind` returns."""
        return self.allocations

    def rewind(self, mark: int) -> int:
        """Free every block made since a mark; gives their number."""
        if not 0 <= mark <= self.allocations:
            raise ValueError(f"{mark} is no mark")
        young = [offset for offset, number in self.made.items() if number >= mark]
        for offset in young:
            self.free(offset)
        return len(young)

    def _round(self, nbytes: int) -> int:
        return max(self.alignment, -(-nbytes // self.alignment) * self.alignment)


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
