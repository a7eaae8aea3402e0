"""What an arena reports about itself."""

from dataclasses import dataclass

__all__ = ["ArenaStats"]


@dataclass(frozen=True)
class ArenaStats:
    """What an arena holds at one moment; all sizes in bytes.

    Attributes
    ----------
    activation_committed, heap_committed : int
        Usable (readable and writable) bytes of each region. The kernel backs them with memory when they are touched.
    heap_live, heap_peak : int
        Bytes asked for by the live blocks; the largest this ever was.
    heap_extent : int
        Bytes from the start of the heap to the end of its last live block.
    heap_blocks, heap_free_ranges : int
        Number of live blocks, and of free ranges between them.
    allocations, frees : int
        Number of calls so far.
    fragmentation : float
        1 - largest free range / all free bytes, over the free ranges between live blocks; 0 when there are none.
    """

    activation_committed: int
    heap_committed: int
    heap_live: int
    heap_peak: int
    heap_extent: int
    heap_blocks: int
    heap_free_ranges: int
    allocations: int
    frees: int
    fragmentation: float
