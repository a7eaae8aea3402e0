"""Arenas with poison and guard pages do all that others do."""

import ctypes
import gc
import random

import pytest

from etarena.allocator import Arena, Error
from etarena.allocator.arena_core import DEBUG
from etarena.allocator.block import live_blocks

MIB = 1 << 20
KINDS = [{"poison": True}, {"guard": True, "poison": False}, {"poison": True, "guard": True}]


@pytest.mark.parametrize("kind", KINDS)
def test_random_use(kind):
    numbers = random.Random(1)
    with Arena(256 * MIB, **kind) as arena:
        held = []
        for step in range(1500):
            if held and numbers.random() < 0.5:
                block, byte = held.pop(numbers.randrange(len(held)))
                assert bytes(memoryview(block)) == bytes([byte]) * block.nbytes
                if numbers.random() < 0.2:
                    kept = min(block.nbytes, 500)
                    block.resize(500)
                    assert bytes(memoryview(block)[:kept]) == bytes([byte]) * kept
                block.free()
            else:
                alignment = 1 << numbers.randrange(15)
                block = arena.alloc(numbers.randrange(20000), alignment)
                assert block.address % alignment == 0
                assert len(ctypes.string_at(block.address + block.nbytes, 64)) == 64
                memoryview(block)[:] = bytes([step % 255]) * block.nbytes
                held.append((block, step % 255))
            if step % 300 == 0:
                arena.trim()
                arena.scribble()
        held.clear()
        del block
        assert arena.stats.heap_blocks == 0
        assert arena.stats.heap_extent == 0


def test_blocks_end_near_their_guard_page():
    with Arena(64 * MIB, guard=True) as arena:
        for nbytes in (1, 64, 4000, 4096, 10000):
            end = arena.alloc(nbytes).address + nbytes + 64
            assert -end % 4096 < 64


def test_a_write_after_a_free_is_reported_once():
    with Arena(64 * MIB, poison=True) as arena:
        block = arena.alloc(1000)
        address = block.address
        block.free()
        ctypes.memset(address + 999, 0, 1)
        with pytest.raises(Error, match="a block of 1000 bytes was written to after it had been freed"):
            arena.alloc(1000)
        assert arena.alloc(1000).address == address


def test_rewound_memory_is_poisoned():
    with Arena(64 * MIB, poison=True) as arena:
        mark = arena.mark()
        address = arena.alloc(100).address
        block = arena.alloc(100)
        memoryview(block)[:] = b"\x01" * 100
        address = block.address
        arena.rewind(mark)
        assert ctypes.string_at(address, 100) == b"\xdd" * 100


def test_blocks_are_counted_in_debug_builds():
    gc.collect()
    before = live_blocks()
    with Arena(MIB) as arena:
        held = [arena.alloc(1) for _ in range(10)]
        assert live_blocks() - before == (10 if DEBUG else 0)
        del held
    assert live_blocks() == before
