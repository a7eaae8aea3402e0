"""Blocks that are resized and rewound, and memory behind free ranges."""

import gc
import random

import numpy as np
import pytest

from etarena.allocator import Arena, ArenaFullError, Error
from etarena.allocator.arena_core import DEBUG

MIB = 1 << 20


@pytest.fixture
def arena():
    with Arena(64 * MIB) as arena:
        yield arena


def test_growing_keeps_contents_and_often_the_address():
    with Arena(64 * MIB, poison=False) as arena:
        block = arena.alloc(1000)
        memoryview(block)[:] = bytes(range(250)) * 4
        address = block.address
        block.resize(3 * MIB)
        assert block.address == address
        assert bytes(memoryview(block)[:1000]) == bytes(range(250)) * 4
        wall = arena.alloc(1)
        block.resize(4 * MIB)
        assert block.address > wall.address
        assert bytes(memoryview(block)[:1000]) == bytes(range(250)) * 4
        assert len(memoryview(block)) == block.nbytes == 4 * MIB
        block.resize(500)
        assert bytes(memoryview(block)) == (bytes(range(250)) * 4)[:500]
        assert arena.stats.heap_live == 501


def test_resizing_refuses_what_alloc_refuses(arena):
    block = arena.alloc(100)
    with pytest.raises(ValueError, match="negative"):
        block.resize(-1)
    with pytest.raises(ArenaFullError):
        block.resize(1 << 40)
    with memoryview(block), pytest.raises(BufferError, match="1 memoryviews"):
        block.resize(10)
    block.resize(10)
    block.free()
    with pytest.raises(Error, match="was freed"):
        block.resize(10)


def test_rewinding_frees_younger_blocks_and_their_objects_know(arena):
    old = arena.alloc(100)
    mark = arena.mark()
    young = [arena.alloc(100) for _ in range(3)]
    young[1].free()
    assert arena.rewind(mark) == 2
    assert arena.stats.heap_blocks == 1
    assert not old.is_freed
    assert young[0].is_freed
    assert "freed" in repr(young[0])
    for use in (lambda block: block.address, lambda block: block.free(), lambda block: block.resize(1)):
        with pytest.raises(Error, match="freed when the arena was rewound"):
            use(young[0])
    with pytest.raises(BufferError, match="rewound"):
        memoryview(young[0])


def test_dropping_a_rewound_block_does_not_free_its_successor(arena):
    mark = arena.mark()
    gone = arena.alloc(100)
    address = gone.address
    arena.rewind(mark)
    successor = arena.alloc(100)
    assert successor.address == address
    del gone
    gc.collect()
    assert arena.stats.heap_blocks == 1
    assert not successor.is_freed


def test_a_block_in_use_cannot_be_rewound(arena):
    mark = arena.mark()
    other = arena.alloc(100)
    array = np.frombuffer(arena.alloc(100), np.uint8)
    with pytest.raises(BufferError, match="still uses a block made since the mark"):
        arena.rewind(mark)
    assert not other.is_freed
    del array
    assert arena.rewind(mark) == 1


@pytest.mark.parametrize("mark", [-1, 5, 1 << 80])
def test_foreign_marks_are_refused(arena, mark):
    arena.alloc(1)
    with pytest.raises(ValueError, match=f"{mark} is no mark of arena"):
        arena.rewind(mark)


def test_memory_behind_free_ranges_stays_within_a_sixteenth():
    numbers = random.Random(3)
    with Arena(1 << 34, poison=False) as arena:
        blocks = [arena.alloc(numbers.randrange(1, 4 * MIB)) for _ in range(64)]
        for _ in range(3000):
            blocks[numbers.randrange(64)] = arena.alloc(numbers.randrange(1, 4 * MIB))
        stats = arena.stats
        assert stats.heap_live <= stats.heap_backed <= stats.heap_peak_backed
        assert stats.heap_peak_backed <= 17 / 16 * stats.heap_peak + 64 * 2 * 4096
        blocks.clear()
        arena.trim()
        assert arena.stats.heap_backed == 0


def test_memory_that_was_given_back_is_zero_and_live_memory_is_kept():
    with Arena(1 << 34, poison=False) as arena:
        walls, holes = [], []
        for index in range(32):
            holes.append(arena.alloc(MIB))
            walls.append(arena.alloc(MIB))
            memoryview(walls[-1])[:] = bytes([index + 1]) * MIB
            memoryview(holes[-1])[:] = b"\xff" * MIB
        del holes
        big = arena.alloc(40 * MIB)
        assert arena.stats.heap_backed <= 17 / 16 * 72 * MIB
        for index, wall in enumerate(walls):
            assert bytes(memoryview(wall)) == bytes([index + 1]) * MIB
        assert big.nbytes == 40 * MIB


def test_huge_pages_are_a_wish():
    with Arena(1 << 30, huge_pages=True) as arena:
        assert isinstance(arena.huge_pages, bool)
        block = arena.alloc(4 * MIB)
        memoryview(block)[:] = b"\x01" * (4 * MIB)
        assert (arena.base + arena.activation_reserve) % (2 * MIB) == arena.base % (2 * MIB)
    with Arena(1 << 20) as arena:
        assert arena.huge_pages is False


def test_debug_builds_poison_by_default():
    with Arena(1 << 20) as arena:
        assert arena.poison is DEBUG
