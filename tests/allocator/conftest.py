"""In a debug build, every test ends with as many live blocks as it began with."""

import gc
from collections.abc import Iterator

import pytest

from etarena.allocator.arena_core import DEBUG
from etarena.allocator.block import live_blocks


@pytest.fixture(autouse=True)
def _no_block_is_left() -> Iterator[None]:
    if not DEBUG:
        yield
        return
    before = live_blocks()
    yield
    gc.collect()
    assert live_blocks() == before
