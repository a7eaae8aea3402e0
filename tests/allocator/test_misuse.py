"""Deliberate misuse, each kind in a process of its own: all of it is caught."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys
from etarena.allocator import Arena, Error, OffsetHeap
kind = sys.argv[1]
arena = Arena(64 << 20, poison="poison" in kind, guard="guard" in kind)
heap = OffsetHeap(1 << 20)
block = arena.alloc(1000)
try:
    if kind == "double free":
        block.free(); block.free()
    elif kind == "double free of an offset":
        offset = heap.alloc(10); heap.free(offset); heap.free(offset)
    elif kind == "foreign offset":
        heap.alloc(1000); heap.free(64)
    elif kind == "use after rewind":
        mark = arena.mark(); young = arena.alloc(10); arena.rewind(mark); memoryview(young)
    elif kind == "free after rewind":
        mark = arena.mark(); young = arena.alloc(10); arena.rewind(mark); young.free()
    elif kind == "rewind below a buffer":
        view = memoryview(block); arena.rewind(0)
    elif kind == "overflow of a size":
        arena.alloc(2**64 - 1)
    elif kind == "overflow of an offset":
        heap.alloc(2**63 - 64, 2**60)
    elif kind == "use after close":
        arena.close(); arena.alloc(1)
    elif kind == "write after free, poison":
        address = block.address; block.free(); ctypes.memset(address + 500, 1, 1); arena.alloc(1000)
    elif kind == "write past the end, guard":
        ctypes.memset(block.address + 1000, 1, 4096)
    elif kind == "read past the end, guard, poison":
        ctypes.string_at(block.address + 1000, 4096)
    else:
        sys.exit(3)
except (Error, BufferError, MemoryError) as error:
    print(type(error).__name__, error)
    sys.exit(0)
sys.exit(4)
"""

CAUGHT = {
    "double free": "Error this block was freed before",
    "double free of an offset": "Error heap 'heap': no live block starts at offset 0",
    "foreign offset": "Error heap 'heap': no live block starts at offset 64",
    "use after rewind": "BufferError this block was freed when its arena was rewound",
    "free after rewind": "Error arena 'arena': this block was freed when the arena was rewound",
    "rewind below a buffer": "BufferError arena 'arena': a memoryview or array still uses",
    "overflow of a size": "ArenaFullError arena 'arena': 18446744073709551615 bytes",
    "overflow of an offset": "ArenaFullError heap 'heap': no room for 9223372036854775744 bytes",
    "use after close": "Error arena 'arena' is closed",
    "write after free, poison": "was written to after it had been freed",
}


def run(kind):
    return subprocess.run([sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True)


@pytest.mark.parametrize("kind", CAUGHT)
def test_misuse_raises(kind):
    result = run(kind)
    assert result.returncode == 0, result.stderr
    assert CAUGHT[kind] in result.stdout


@pytest.mark.parametrize("kind", ["write past the end, guard", "read past the end, guard, poison"])
def test_misuse_stops_at_the_guard_page(kind):
    assert run(kind).returncode == -signal.SIGSEGV
