"""What an arena reports about itself."""

from dataclasses import dataclass

__all__ = ["ArenaStats", "HeapStats"]


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
    heap_backed, heap_peak_backed : int
        At most so many bytes of the heap have memory behind them, live or free; the largest this ever was. Zero where
        no account is kept: with huge pages, poison or guards.
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
    heap_backed: int
    heap_peak_backed: int


@dataclass(frozen=True)
class HeapStats:
    """What a heap of offsets holds at one moment; all sizes in bytes.

    Attributes
    ----------
    live, peak : int
        Bytes asked for by the live blocks; the largest this ever was.
    top, extent : int
        Nothing at or above `top` is in use; the largest it ever was.
    blocks, free_ranges : int
        Number of live blocks, and of free ranges between them.
    allocations, frees : int
        Number of calls so far.
    fragmentation : float
        1 - largest free range / all free bytes, over the free ranges between live blocks; 0 when there are none.
    free_bytes : int
        In the free ranges between live blocks.
    """

    live: int
    peak: int
    top: int
    extent: int
    blocks: int
    free_ranges: int
    allocations: int
    frees: int
    fragmentation: float
    free_bytes: int
