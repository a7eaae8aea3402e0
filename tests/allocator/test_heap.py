import itertools
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from etarena.allocator import Arena, ArenaFullError

HEAP = 1 << 20
SIZES = st.integers(0, 300) | st.sampled_from([4095, 4096, 65536, 300_000])


class Heap(RuleBasedStateMachine):
    """Random allocations and frees against a model that knows only addresses and sizes."""

    blocks = Bundle("blocks")

    def __init__(self):
        super().__init__()
        self.arena = Arena(2 * HEAP, activation_reserve=HEAP)
        self.start = self.arena.base + self.arena.activation_reserve
        self.live = {}  # address -> block
        self.peak = self.allocations = 0

    @rule(target=blocks, nbytes=SIZES, alignment=st.sampled_from([1, 64, 256, 4096]))
    def alloc(self, nbytes, alignment):
        try:
            block = self.arena.alloc(nbytes, alignment)
        except ArenaFullError:
            # With everything coalesced, only a heap that is really crowded refuses.
            assert 2 * (sum(self.sizes()) + nbytes + alignment) + 64 * len(self.live) > HEAP // 2
            return None
        assert block.nbytes == nbytes
        assert block.address % alignment == 0
        assert block.address not in self.live
        self.live[block.address] = block
        self.allocations += 1
        self.peak = max(self.peak, sum(self.sizes()))
        return block

    @rule(block=consumes(blocks))
    def free(self, block):
        if block is not None:
            del self.live[block.address]
            block.free()

    @rule()
    def trim(self):
        self.arena.trim()

    def sizes(self):
        return [block.nbytes for block in self.live.values()]

    @invariant()
    def blocks_are_apart_and_inside(self):
        spans = sorted((address, address + max(1, block.nbytes)) for address, block in self.live.items())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        if spans:
            assert self.start <= spans[0][0]
            assert spans[-1][1] <= self.arena.base + self.arena.reserve - 64

    @invariant()
    def accounts_are_right(self):
        stats = self.arena.stats
        assert stats.heap_live == sum(self.sizes())
        assert stats.heap_blocks == len(self.live)
        assert stats.heap_peak == self.peak
        assert stats.allocations == self.allocations
        assert stats.allocations - stats.frees == len(self.live)
        assert stats.heap_free_ranges <= len(self.live)  # no two free neighbours, none at the top
        last = max((address + block.nbytes for address, block in self.live.items()), default=self.start)
        assert 0 <= stats.heap_extent - (last - self.start) <= 64
        assert 0 <= stats.fragmentation < 1

    def teardown(self):
        for block in self.live.values():
            block.free()
        self.live.clear()
        stats = self.arena.stats
        assert (stats.heap_extent, stats.heap_free_ranges, stats.heap_blocks) == (0, 0, 0)
        assert len(memoryview(self.arena.alloc(HEAP))) == HEAP  # one range again
        self.arena.close()


Heap.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestHeap = Heap.TestCase


def test_tables_grow_while_a_range_waits_to_be_taken_again():
    # What was freed last is in no chain of the index: tables that grew then once put it into one twice, for ever.
    for seed in range(6):
        arena, numbers, held = Arena(1 << 32), random.Random(seed), []
        for _ in range(6000):
            if held and numbers.random() < 0.45:
                held.pop(numbers.randrange(len(held))).free()
            else:
                held.append(arena.alloc(numbers.randrange(2000)))
        while held:
            held.pop().free()
        assert (arena.stats.heap_blocks, arena.stats.heap_extent) == (0, 0)
