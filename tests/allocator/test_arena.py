import ctypes
import gc
import random
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from etarena.allocator import Arena, ArenaFullError, Block, Error

PAGE = 4096
MIB = 1 << 20


def fill(address, nbytes, byte):
    ctypes.memset(address, byte, nbytes)


def content(address, nbytes):
    return ctypes.string_at(address, nbytes)


@pytest.fixture
def arena():
    with Arena(256 * MIB) as arena:
        yield arena


@pytest.fixture
def plain():
    """Without poison, which debug builds would fill free memory with."""
    with Arena(256 * MIB, poison=False) as arena:
        yield arena


def test_reserving_costs_nothing(arena):
    assert arena.base > 0
    assert arena.reserve >= 256 * MIB
    assert arena.activation_reserve >= 128 * MIB
    stats = arena.stats
    assert (stats.activation_committed, stats.heap_committed, stats.heap_live, stats.heap_blocks) == (0, 0, 0, 0)


def test_activations_grow_without_moving_or_losing_anything(arena):
    base = arena.base
    arena.ensure_activations(1000)
    fill(base, 1000, 0x5A)
    arena.ensure_activations(30 * MIB)
    fill(base + 1000, 30 * MIB - 1000, 0xA5)
    assert arena.base == base
    assert content(base, 1000) == b"\x5a" * 1000
    assert arena.stats.activation_committed >= 30 * MIB


def test_activations_never_shrink(arena):
    arena.ensure_activations(10 * MIB)
    committed = arena.stats.activation_committed
    arena.ensure_activations(0)
    assert arena.stats.activation_committed == committed


def test_readable_slack_behind_activations():
    with Arena(16 * MIB, activation_reserve=8 * MIB) as arena:
        for nbytes in (1, PAGE, 2 * MIB - 64, 2 * MIB, 8 * MIB):
            arena.ensure_activations(nbytes)
            assert len(content(arena.base + nbytes, 64)) == 64


def test_readable_slack_behind_blocks():
    with Arena(16 * MIB, activation_reserve=8 * MIB) as arena:
        for nbytes in (0, 1, PAGE, 2 * MIB - 64, 2 * MIB, 8 * MIB):
            block = arena.alloc(nbytes)
            assert len(content(block.address + nbytes, 64)) == 64
            block.free()


@pytest.mark.parametrize("nbytes", [8 * MIB + 2 * PAGE, 1 << 40, (1 << 63) - 1, 1 << 64, 1 << 100])
def test_too_many_activations_are_refused(nbytes):
    with Arena(16 * MIB, activation_reserve=8 * MIB, name="small") as arena:
        with pytest.raises(ArenaFullError, match=f"arena 'small': .*{nbytes}"):
            arena.ensure_activations(nbytes)
        arena.ensure_activations(8 * MIB)


@pytest.mark.parametrize("nbytes", [8 * MIB + 2 * PAGE, 1 << 40, (1 << 63) - 1, 1 << 64, 1 << 100])
def test_blocks_that_do_not_fit_are_refused(nbytes):
    with Arena(16 * MIB, activation_reserve=8 * MIB, name="small") as arena:
        held = arena.alloc(MIB)
        with pytest.raises(ArenaFullError, match=f"arena 'small': .*{nbytes}"):
            arena.alloc(nbytes)
        with pytest.raises(MemoryError):
            arena.alloc(nbytes)
        held.free()
        arena.alloc(8 * MIB)


def test_a_full_heap_says_what_is_free():
    with Arena(16 * MIB, activation_reserve=8 * MIB) as arena:
        first, second = arena.alloc(MIB), arena.alloc(6 * MIB)
        first.free()
        with pytest.raises(ArenaFullError, match=rf"{MIB} in 1 pieces, {second.nbytes} are in use; drop blocks"):
            arena.alloc(3 * MIB)


@pytest.mark.parametrize("nbytes", [-1, -(2**70)])
def test_negative_sizes_are_refused(arena, nbytes):
    with pytest.raises(ValueError, match="negative"):
        arena.alloc(nbytes)
    with pytest.raises(ValueError, match="negative"):
        arena.ensure_activations(nbytes)


@pytest.mark.parametrize("alignment", [0, -64, 3, 48, 2**70])
def test_bad_alignments_are_refused(arena, alignment):
    with pytest.raises(ValueError, match="power of two"):
        arena.alloc(64, alignment)


@pytest.mark.parametrize(
    ("reserve", "activations"), [(0, None), (-1, None), (1, None), (MIB, MIB), (MIB, 0), (MIB, -1), (1 << 60, None)]
)
def test_regions_that_leave_no_room_are_refused(reserve, activations):
    with pytest.raises(ValueError, match="leave no room"):
        Arena(reserve, activation_reserve=activations)


@pytest.mark.parametrize("alignment", [1, 16, 64, 128, PAGE, MIB, 8 * MIB])
def test_blocks_are_aligned(arena, alignment):
    arena.alloc(1)
    for nbytes in (1, 100, PAGE, 0):
        assert arena.alloc(nbytes, alignment).address % alignment == 0


def test_blocks_are_buffers(arena):
    block = arena.alloc(10)
    array = np.frombuffer(block, np.uint8)
    array[:] = range(10)
    assert content(block.address, 10) == bytes(range(10))
    assert bytes(memoryview(block)) == bytes(range(10))
    assert (len(block), block.nbytes) == (10, 10)
    assert isinstance(block, Block)


def test_empty_blocks_have_addresses_of_their_own(arena):
    blocks = [arena.alloc(0) for _ in range(10)]
    assert len({block.address for block in blocks}) == 10
    assert bytes(memoryview(blocks[0])) == b""


def test_a_dropped_block_is_freed(arena):
    block = arena.alloc(100)
    gone = weakref.ref(block)
    assert arena.stats.heap_live == 100
    del block
    assert gone() is None
    assert (arena.stats.heap_live, arena.stats.heap_blocks, arena.stats.frees) == (0, 0, 1)


def test_a_block_in_a_cycle_is_freed(arena):
    holder = [arena.alloc(100)]
    holder.append(holder)
    del holder
    gc.collect()
    assert arena.stats.heap_blocks == 0


def test_a_view_keeps_its_block(arena):
    array = np.frombuffer(arena.alloc(64), np.uint8)
    assert arena.stats.heap_blocks == 1
    del array
    assert arena.stats.heap_blocks == 0


def test_a_block_in_use_cannot_be_freed(arena):
    block = arena.alloc(64)
    with memoryview(block), pytest.raises(BufferError, match="1 memoryviews"):
        block.free()
    block.free()


def test_a_freed_block_says_so(arena):
    block = arena.alloc(64)
    block.free()
    assert block.is_freed
    with pytest.raises(Error, match="freed before"):
        block.free()
    with pytest.raises(Error, match="was freed"):
        _ = block.address
    with pytest.raises(BufferError, match="was freed"):
        memoryview(block)
    assert arena.stats.frees == 1


def test_blocks_are_made_by_the_arena_only():
    with pytest.raises(TypeError, match=r"Arena\.alloc"):
        Block()


def test_freed_memory_is_used_again(arena):
    block = arena.alloc(10_000)
    guard = arena.alloc(1)
    address = block.address
    block.free()
    assert arena.alloc(9_000).address == address
    assert guard.nbytes == 1


def test_neighbours_coalesce(arena):
    blocks = [arena.alloc(1000) for _ in range(5)]
    start = blocks[0].address
    for i in (1, 3, 2, 0):
        blocks[i].free()
    stats = arena.stats
    assert (stats.heap_free_ranges, stats.fragmentation) == (1, 0.0)
    assert arena.alloc(4 * 1024).address == start


def test_statistics_count_what_was_asked_for(arena):
    kept = [arena.alloc(100) for _ in range(4)]
    kept[0].free()
    kept[2].free()
    stats = arena.stats
    assert (stats.heap_live, stats.heap_peak, stats.heap_blocks, stats.heap_free_ranges) == (200, 400, 2, 2)
    assert (stats.allocations, stats.frees) == (4, 2)
    assert stats.fragmentation == 0.5
    assert stats.heap_extent == 4 * 128
    assert stats.heap_committed >= stats.heap_extent + 64


def test_trim_gives_pages_back_and_keeps_blocks(plain):
    plain.ensure_activations(4 * MIB)
    fill(plain.base, 4 * MIB, 1)
    low, middle, high, top = (plain.alloc(4 * MIB) for _ in range(4))
    for block in (low, middle, high, top):
        fill(block.address, block.nbytes, 0x77)
    address = middle.address
    middle.free()
    top.free()
    plain.trim()
    stats = plain.stats
    assert stats.activation_committed == 0
    assert stats.heap_committed == 12 * MIB + PAGE
    assert content(low.address, low.nbytes) == content(high.address, high.nbytes) == b"\x77" * (4 * MIB)
    assert content(address, 4 * MIB) == bytes(4 * MIB)  # the pages are new ones
    plain.ensure_activations(4 * MIB)
    assert content(plain.base, 4 * MIB) == bytes(4 * MIB)
    del low, high
    plain.trim()
    assert plain.stats.heap_committed == 0


def test_scribble_fills_all_that_is_not_in_use(plain):
    plain.ensure_activations(PAGE)
    kept, freed, other = (plain.alloc(PAGE) for _ in range(3))
    for block in (kept, freed, other):
        fill(block.address, PAGE, 0)
    address = freed.address
    freed.free()
    plain.scribble(0xAB)
    assert content(plain.base, PAGE) == b"\xab" * PAGE
    assert content(address, PAGE) == b"\xab" * PAGE
    assert content(other.address + PAGE, 64) == b"\xab" * 64
    assert content(kept.address, PAGE) == content(other.address, PAGE) == bytes(PAGE)


def test_a_closed_arena_refuses_work():
    arena = Arena(16 * MIB, name="done")
    arena.close()
    arena.close()
    assert arena.is_closed
    assert "closed" in repr(arena)
    for work in (lambda: arena.alloc(1), lambda: arena.ensure_activations(1), arena.trim, arena.scribble):
        with pytest.raises(Error, match="arena 'done' is closed"):
            work()


def test_blocks_outlive_the_close_of_their_arena():
    with Arena(16 * MIB) as arena:
        block = arena.alloc(100)
        fill(block.address, 100, 0x33)
    assert content(block.address, 100) == b"\x33" * 100
    assert arena.base > 0
    block.free()
    assert arena.base == 0


def test_a_block_keeps_its_arena():
    block = Arena(16 * MIB).alloc(100)
    gc.collect()
    fill(block.address, 100, 1)
    assert memoryview(block)[99] == 1


def test_many_arenas_can_be_reserved():
    for _ in range(300):
        Arena().alloc(1)


def test_a_nested_turn_is_an_error_and_no_deadlock(arena):
    with arena.turn() as held:
        assert held is arena
        for work in (arena.trim, arena.scribble, arena.close, arena.turn().__enter__):
            with pytest.raises(Error, match="this thread is inside a method"):
                work()
        arena.ensure_activations(10)
        arena.alloc(10)
    arena.trim()


def test_turns_are_taken_one_after_the_other(arena):
    inside, largest = 0, 0

    def work():
        nonlocal inside, largest
        for _ in range(200):
            with arena.turn():
                inside += 1
                largest = max(largest, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, largest) == (0, 1)


def test_waiting_for_a_turn_lets_other_threads_run(arena):
    entered, release = threading.Event(), threading.Event()

    def hold():
        with arena.turn():
            entered.set()
            release.wait()

    holder = threading.Thread(target=hold)
    waiter = threading.Thread(target=arena.trim)
    holder.start()
    entered.wait()
    waiter.start()
    assert waiter.is_alive()
    release.set()  # never reached if the waiter kept the GIL
    holder.join()
    waiter.join()


def test_threads_share_the_heap(arena):
    failures = []

    def work(seed):
        numbers = random.Random(seed)
        held = []
        for _ in range(3000):
            if held and numbers.random() < 0.5:
                block = held.pop(numbers.randrange(len(held)))
                if content(block.address, block.nbytes) != bytes([seed]) * block.nbytes:
                    failures.append(block)
            else:
                block = arena.alloc(numbers.randrange(2000))
                fill(block.address, block.nbytes, seed)
                held.append(block)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert arena.stats.heap_blocks == 0
    assert arena.stats.heap_extent == 0


FORK = """
import os, signal
from etarena.allocator import Arena
signal.alarm(60)
arena = Arena(64 << 20)
block = arena.alloc(100)
with arena.turn():  # as if a method were running
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child has no alarm of its parent's
        block.free()
        arena.ensure_activations(1000)
        memoryview(arena.alloc(1000))[0] = 1
        arena.trim()
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
arena.trim()
assert arena.stats.heap_blocks == 1
print("parent goes on")
"""


def test_a_forked_child_can_use_its_copy():
    result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("parent goes on\n", "")


# Threads that have the GIL and want memory at any moment of a fork, in which Python lets others run.
FORK_AMONG_THREADS = """
import os, signal, sys, threading, warnings
from etarena.allocator import Arena, OffsetHeap
signal.alarm(60)
warnings.simplefilter("ignore", DeprecationWarning)
sys.setswitchinterval(1e-6)
arena, heap, stopped = Arena(64 << 20), OffsetHeap(1 << 20), threading.Event()

def work():
    while not stopped.is_set():
        blocks = [arena.alloc(nbytes) for nbytes in (100, 5000)]
        heap.free(heap.alloc(64))
        arena.stats

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(40):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        memoryview(arena.alloc(1000))[0] = 1
        heap.free(heap.alloc(64))
        arena.trim()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stopped.set()
for thread in threads:
    thread.join()
assert (arena.stats.heap_blocks, heap.stats.live) == (0, 0)
print("parent goes on")
"""


def test_forks_and_threads_that_allocate_do_not_wait_for_each_other():
    result = subprocess.run([sys.executable, "-c", FORK_AMONG_THREADS], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("parent goes on\n", "")
