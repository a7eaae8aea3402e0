"""Memory that grows row by row: contents against a list, memory against what the rows need, misuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etarena.allocator import ArenaFullError, Error
from etarena.allocator.growing import GrowingBlock

PAGE = 4096


def content(block: GrowingBlock) -> bytes:
    return bytes(memoryview(block))


class TestGrowth:
    def test_keeps_its_address_and_content(self):
        block = GrowingBlock(1000)
        block.write(bytes(range(250)) * 4)
        start = block.start
        for i in range(5000):
            block.write(bytes([i % 256]) * 1000)
        assert block.start == start
        assert block.rows == 5001
        assert content(block)[:1000] == bytes(range(250)) * 4
        assert content(block)[-1000:] == bytes([4999 % 256]) * 1000

    def test_memory_is_what_the_rows_need_and_less_than_two_pages(self):
        block = GrowingBlock(100)
        for _ in range(1000):
            block.write(bytes(700))
            assert block.nbytes <= block.usable_bytes < block.nbytes + 2 * PAGE

    def test_clearing_gives_the_memory_back(self):
        block = GrowingBlock(PAGE)
        block.write(b"\x01" * PAGE * 64)
        block.clear()
        assert (block.rows, block.nbytes, block.usable_bytes) == (0, 0, 0)
        block.write(b"\x02" * PAGE)
        assert content(block) == b"\x02" * PAGE

    def test_rows_without_bytes(self):
        block = GrowingBlock(0)
        block.replace(b"", 7)
        assert (block.rows, block.nbytes) == (7, 0)

    def test_replacing_with_nothing_is_zeros(self):
        block = GrowingBlock(8)
        block.write(b"\xff" * 80)
        block.replace(b"", 3)
        assert content(block) == bytes(24)


@given(st.integers(1, 700), st.integers(1, 40), st.lists(st.integers(0, 30), max_size=60))
def test_a_window_holds_the_last_rows(row_bytes, window, counts):
    """A small address space, so that the window wraps often."""
    block = GrowingBlock(row_bytes, reserve=(window + 30) * row_bytes + PAGE)
    expected: list[bytes] = []
    n = 0
    for count in counts:
        rows = [bytes([(n + i) % 251]) * row_bytes for i in range(count)]
        n += count
        block.write(b"".join(rows), window)
        expected = (expected + rows)[-window:]
        assert content(block) == b"".join(expected)
        assert block.usable_bytes <= (window + 30) * row_bytes + 3 * PAGE


class TestMisuse:
    def test_a_full_block_says_so_and_is_as_before(self):
        block = GrowingBlock(PAGE, reserve=4 * PAGE, name="keys")
        block.write(b"\x07" * PAGE * 4)
        with pytest.raises(ArenaFullError, match=r"'keys'.*no room"):
            block.write(bytes(PAGE))
        assert content(block) == b"\x07" * PAGE * 4

    def test_a_window_that_is_looked_at_does_not_move(self):
        block = GrowingBlock(PAGE, reserve=4 * PAGE, name="keys")
        block.write(b"\x01" * PAGE * 4, 2)
        view = np.frombuffer(block, np.uint8)
        with pytest.raises(Error, match=r"'keys'.*array"):
            block.write(bytes(2 * PAGE), 2)
        assert view.tobytes() == b"\x01" * PAGE * 2
        del view
        block.write(b"\x02" * 2 * PAGE, 2)
        assert content(block) == b"\x02" * PAGE * 2

    def test_what_is_looked_at_stays_readable(self):
        block = GrowingBlock(PAGE)
        block.write(b"\x01" * PAGE * 8)
        view = np.frombuffer(block, np.uint8)
        block.write(b"\x02" * PAGE * 8, 1)
        block.clear()
        assert view.tobytes() == b"\x01" * PAGE * 8
        assert not view.flags.writeable

    @pytest.mark.parametrize(
        "call",
        [
            lambda: GrowingBlock(-1),
            lambda: GrowingBlock(1 << 60),
            lambda: GrowingBlock(8, reserve=0),
            lambda: GrowingBlock(8, reserve=1 << 60),
            lambda: GrowingBlock(8).write(bytes(7)),
            lambda: GrowingBlock(8).write(bytes(8), -1),
            lambda: GrowingBlock(0).write(bytes(1)),
            lambda: GrowingBlock(8).replace(bytes(8), 2),
            lambda: GrowingBlock(8).require(-1),
        ],
    )
    def test_senseless_arguments(self, call):
        with pytest.raises(ValueError, match=r"row_bytes|reserve|rows|bytes"):
            call()

    def test_more_than_any_address_space(self):
        with pytest.raises(ArenaFullError, match="address space"):
            GrowingBlock(1 << 30).require(1 << 40)
