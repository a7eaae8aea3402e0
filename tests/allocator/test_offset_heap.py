"""One suite for the fast heap of offsets and for its slow reference, and a state machine that compares the two."""

import itertools
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from etarena.allocator import ArenaFullError, Error, HeapRange, OffsetHeap
from etarena.allocator.reference_heap import ReferenceHeap

CAPACITY = 1 << 16
LARGEST = 1 << 61


@pytest.fixture(params=[OffsetHeap, ReferenceHeap])
def kind(request):
    return request.param


def test_blocks_are_apart_and_inside(kind):
    heap = kind(CAPACITY, 256)
    spans = sorted((heap.alloc(nbytes), nbytes) for nbytes in [0, 1, 255, 256, 257, 5000])
    assert all(start + nbytes <= following for (start, nbytes), (following, _) in itertools.pairwise(spans))
    assert all(start % 256 == 0 for start, _ in spans)
    assert len({start for start, _ in spans}) == 6


def test_everything_can_be_handed_out(kind):
    heap = kind(CAPACITY)
    assert heap.alloc(CAPACITY) == 0
    with pytest.raises(ArenaFullError, match="no room for 1 bytes"):
        heap.alloc(1)
    heap.free(0)
    assert sorted(heap.alloc(CAPACITY // 4) for _ in range(4)) == [0, CAPACITY // 4, CAPACITY // 2, 3 * CAPACITY // 4]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_neighbours_become_one_range_again(kind, order):
    heap = kind(CAPACITY)
    offsets = [heap.alloc(CAPACITY // 4) for _ in range(4)]
    for index in order:
        heap.free(offsets[index])
    assert heap.alloc(CAPACITY) == 0


def test_a_hole_that_fits_is_preferred_to_fresh_memory(kind):
    heap = kind(CAPACITY)
    hole, wall = heap.alloc(1024), heap.alloc(64)
    heap.free(hole)
    assert heap.alloc(1000) == hole
    assert wall == 1024


@pytest.mark.parametrize("alignment", [1, 64, 512, 4096, 1 << 14])
def test_alignments(kind, alignment):
    heap = kind(CAPACITY)
    heap.alloc(1)
    assert heap.alloc(100, alignment) % alignment == 0
    assert heap.alloc(100, alignment) % alignment == 0


@pytest.mark.parametrize("offset", [-1, 1, 64, CAPACITY, LARGEST, 1 << 80])
def test_what_is_no_block_cannot_be_freed(kind, offset):
    heap = kind(CAPACITY)
    heap.alloc(100, 128)
    with pytest.raises(Error, match=f"no live block starts at offset {offset}"):
        heap.free(offset)
    with pytest.raises(Error, match=f"no live block starts at offset {offset}"):
        heap.size(offset)


def test_freeing_twice_is_refused(kind):
    heap = kind(CAPACITY)
    first, second = heap.alloc(100), heap.alloc(100)
    heap.free(first)
    with pytest.raises(Error, match="no live block"):
        heap.free(first)
    heap.free(second)
    with pytest.raises(Error, match="no live block"):
        heap.free(second)


def test_rewinding_frees_what_is_younger(kind):
    heap = kind(CAPACITY)
    old, gone = heap.alloc(100), heap.alloc(100)
    mark = heap.mark()
    young = [heap.alloc(100) for _ in range(3)]
    heap.free(gone)
    heap.free(young[1])
    assert heap.rewind(mark) == 2
    assert heap.size(old) == 100
    with pytest.raises(Error, match="no live block"):
        heap.free(young[2])
    assert heap.rewind(mark) == 0
    assert heap.rewind(0) == 1


@pytest.mark.parametrize("mark", [-1, 3, 1 << 70])
def test_marks_of_elsewhere_are_refused(kind, mark):
    heap = kind(CAPACITY)
    heap.alloc(1)
    with pytest.raises(ValueError, match=f"{mark} is no mark"):
        heap.rewind(mark)


@pytest.mark.parametrize(("nbytes", "alignment"), [(-1, 64), (1, 0), (1, 3), (1, -64)])
def test_sizes_and_alignments_without_sense_are_refused(kind, nbytes, alignment):
    with pytest.raises(ValueError, match=r"negative|power of two|make no block"):
        kind(CAPACITY).alloc(nbytes, alignment)


@pytest.mark.parametrize("nbytes", [CAPACITY + 1, (1 << 61) - 1, LARGEST, (1 << 63) - 1, 1 << 64, 1 << 90])
@pytest.mark.parametrize("alignment", [1, 1 << 60, LARGEST])
def test_no_sum_overflows(kind, nbytes, alignment):
    heap = kind(CAPACITY)
    heap.alloc(64)
    with pytest.raises(ArenaFullError, match=str(nbytes)):
        heap.alloc(nbytes, alignment)
    assert heap.alloc(CAPACITY - 64) == 64


def test_sizes_beyond_32_bits():
    heap = OffsetHeap(LARGEST)
    first, second = heap.alloc(1 << 60), heap.alloc((1 << 60) - 64)
    assert (first, second) == (0, 1 << 60)
    assert heap.alloc(64) == LARGEST - 64
    with pytest.raises(ArenaFullError):
        heap.alloc(0)
    heap.free(second)
    assert heap.alloc(1 << 59, 1 << 59) == 1 << 60


@pytest.mark.parametrize(("capacity", "alignment"), [(-1, 64), (LARGEST + 1, 64), (1, 0), (1, 48), (1, 1 << 62)])
def test_heaps_out_of_range_are_refused(capacity, alignment):
    with pytest.raises(ValueError, match="out of range"):
        OffsetHeap(capacity, alignment)


def test_a_heap_of_nothing_hands_out_nothing():
    with pytest.raises(ArenaFullError, match="capacity larger than 0"):
        OffsetHeap(63).alloc(0)


def test_growing_in_place_and_moving():
    heap = OffsetHeap(CAPACITY)
    first, second, third = heap.alloc(64), heap.alloc(64), heap.alloc(64)
    heap.free(second)
    assert heap.realloc(first, 128) == first
    assert heap.realloc(third, 4096) == third  # the last one has room behind it
    moved = heap.realloc(first, 192)
    assert moved == third + 4096
    assert heap.size(moved) == 192
    assert heap.realloc(moved, 1) == moved
    with pytest.raises(ArenaFullError):
        heap.realloc(third, CAPACITY)
    assert heap.size(third) == 4096
    with pytest.raises(Error, match="no live block"):
        heap.realloc(first, 1)
    with pytest.raises(ValueError, match="negative"):
        heap.realloc(third, -1)


def test_statistics_and_snapshot():
    heap = OffsetHeap(CAPACITY, name="device")
    hole, _, last = heap.alloc(100), heap.alloc(200), heap.alloc(1000)
    heap.free(hole)
    stats = heap.stats
    assert (stats.live, stats.peak, stats.top, stats.extent) == (1200, 1300, 1408, 1408)
    assert (stats.blocks, stats.free_ranges, stats.free_bytes, stats.fragmentation) == (2, 1, 128, 0.0)
    heap.free(last)
    assert (heap.stats.top, heap.stats.extent) == (384, 1408)
    snapshot = heap.snapshot()
    assert snapshot.name == "device"
    assert snapshot.ranges == (HeapRange(0, 128, -1), HeapRange(128, 256, 200))
    assert [entry.is_free for entry in snapshot.ranges] == [True, False]


@pytest.mark.parametrize(("below", "hole"), [(0, 0), (640, 0), (1280, 640)])
def test_a_block_freed_at_the_top_is_taken_again_with_another_size(below, hole):
    heap = OffsetHeap(CAPACITY)
    lower = [heap.alloc(640) for _ in range(below // 640)]
    if hole:
        heap.free(lower.pop(0))
    last = heap.alloc(1000)
    assert last == below
    extent = below + 1024
    for nbytes in [5000, 64, 700, 1, 30_000, 6400, 640, 704]:
        heap.free(last)
        last = heap.alloc(nbytes)
        rounded = -(-nbytes // 64) * 64
        fits = nbytes <= hole
        top = below if fits else below + rounded
        extent = max(extent, top)
        stats = heap.stats
        assert last == (0 if fits else below)
        assert (stats.top, stats.extent, stats.live) == (top, extent, 640 * len(lower) + nbytes)
        assert stats.free_bytes == hole - rounded * fits
    heap.free(last)
    with pytest.raises(ArenaFullError):
        heap.alloc(CAPACITY - below + 1)
    assert heap.alloc(CAPACITY - below) == below


def test_blocks_are_freed_by_other_threads():
    heap = OffsetHeap(1 << 24)
    offsets = [heap.alloc(100) for _ in range(2000)]
    threads = [threading.Thread(target=lambda k=k: [heap.free(offset) for offset in offsets[k::4]]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (heap.stats.blocks, heap.stats.top) == (0, 0)


class Comparison(RuleBasedStateMachine):
    """The same calls on both heaps; offsets differ, everything that is promised does not."""

    def __init__(self):
        super().__init__()
        self.fast = OffsetHeap(CAPACITY)
        self.slow = ReferenceHeap(CAPACITY)
        self.blocks = []  # (offset in fast, offset in slow)

    def forget_the_dead(self):
        self.blocks = [pair for pair in self.blocks if pair[1] in self.slow.blocks]

    @rule(nbytes=st.integers(0, 3000) | st.sampled_from([4096, 16384]), alignment=st.sampled_from([1, 64, 1024]))
    def alloc(self, nbytes, alignment):
        try:
            slow = self.slow.alloc(nbytes, alignment)
        except ArenaFullError:
            slow = None
        try:
            fast = self.fast.alloc(nbytes, alignment)
        except ArenaFullError:
            fast = None
        if fast is not None and slow is not None:
            assert fast % max(64, alignment) == 0
            self.blocks.append((fast, slow))
        elif slow is not None:
            assert self.fast.stats.live + nbytes + alignment > CAPACITY // 3  # a crowded heap may be cut up otherwise
            self.slow.free(slow)
            self.slow.allocations -= 1
        elif fast is not None:
            self.fast.free(fast)
            self.slow.allocations += 1

    @precondition(lambda self: self.blocks)
    @rule(data=st.data())
    def free(self, data):
        fast, slow = self.blocks.pop(data.draw(st.integers(0, len(self.blocks) - 1)))
        assert self.fast.size(fast) == self.slow.size(slow)
        self.fast.free(fast)
        self.slow.free(slow)

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), nbytes=st.integers(0, 3000))
    def shrink(self, data, nbytes):
        fast, slow = data.draw(st.sampled_from(self.blocks))
        nbytes = min(nbytes, self.slow.size(slow))
        assert self.fast.realloc(fast, nbytes) == fast
        self.slow.blocks[slow] = nbytes

    @rule(back=st.integers(0, 8))
    def rewind(self, back):
        mark = max(0, self.slow.allocations - back)
        assert self.fast.rewind(mark) == self.slow.rewind(mark)
        self.forget_the_dead()

    @invariant()
    def accounts_agree(self):
        stats, slow = self.fast.stats, self.slow
        assert (stats.live, stats.blocks) == (slow.live, len(slow.blocks))
        assert self.fast.mark() == slow.allocations

    @invariant()
    def ranges_tile_the_heap(self):
        ranges = self.fast.snapshot().ranges
        ends = [entry.offset + entry.size for entry in ranges]
        assert [entry.offset for entry in ranges] == [0, *ends[:-1]][: len(ranges)]
        assert (ends[-1] if ends else 0) == self.fast.stats.top
        assert {entry.offset for entry in ranges if not entry.is_free} == {fast for fast, _ in self.blocks}
        assert all(entry.requested <= entry.size for entry in ranges)
        assert not any(one.is_free and other.is_free for one, other in itertools.pairwise(ranges))
        assert not (ranges and ranges[-1].is_free)

    def teardown(self):
        for fast, _ in self.blocks:
            self.fast.free(fast)
        assert self.fast.alloc(CAPACITY) == 0  # one range again


Comparison.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestComparison = Comparison.TestCase
