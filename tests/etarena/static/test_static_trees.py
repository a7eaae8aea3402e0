"""Lives and places over trees of graphs: by hand, and by running random trees byte by byte."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etarena.allocator.errors import ExportError, PlanError
from etarena.static.lives import live_pieces
from etarena.static.options import Options
from etarena.static.placing import Request, place_in_pools
from etarena.static.pools import requests_of
from etarena.static.storages import Storages
from etarena.static.sweep import check_places
from etarena.static.timeline import Block, Branches, Timeline, Touch

from ...helpers.trees import Machine, timelines

A, B, C, D = 64, 256, 128, 512


class Example:
    """root{child0{grandchild}, child1}: children are the first branches of a ``cond`` whose second is empty."""

    def __init__(self):
        self.storages = Storages()
        self.position = 0
        self.blocks = 0
        self.root = Block(0)

    def touch(self, block, *uses, makes=()):
        self.position += 1
        block.items.append(Touch(self.position, (*uses, *makes), tuple(makes)))

    def child(self, block, fill):
        self.position += 1
        at, inside = self.position, []
        for body in (fill, None):
            self.blocks += 1
            inner = Block(self.blocks, self.position + 1)
            if body is not None:
                body(inner)
            self.position += 1
            inner.end, inner.last_number = self.position + 1, self.blocks
            inside.append(inner)
        block.items.append(Branches(at, (), *inside, (set(), set())))

    def peak(self):
        self.root.end = self.position + 1
        timeline = Timeline(self.root, self.storages, (), [], [], False)
        pieces = live_pieces(timeline)
        requests = requests_of(self.storages, pieces, Options(), {})
        placed = place_in_pools(list(requests.values()), {1: None}, 16, 0, 0)
        assert placed[1].nbytes == placed[1].lower_bound
        return placed[1].nbytes


def example(a_is_read_last=True, result_is_read=False, b_is_read_after_grandchild=True):
    tree = Example()
    add = tree.storages.add_bytes
    a, d, result = add(A, "a", 0), add(D, "d", 3), add(32, "result", 0)
    b, c = add(B, "b", 1), add(C, "c", 2)
    tree.touch(tree.root, makes=(a,))

    def child0(block):
        tree.touch(block, a, makes=(b,))
        tree.child(block, lambda inner: tree.touch(inner, b, makes=(c,)) or tree.touch(inner, c))
        if b_is_read_after_grandchild:
            tree.touch(block, b)
        if result_is_read:
            tree.touch(block, a, makes=(result,))

    tree.child(tree.root, child0)
    tree.child(tree.root, lambda block: tree.touch(block, makes=(d,)) or tree.touch(block, d))
    if a_is_read_last:
        tree.touch(tree.root, a)
    if result_is_read:
        tree.touch(tree.root, result)
    return tree.peak()


def test_siblings_share_and_the_parent_lives_beside_them():
    assert example() == max(C + B, D) + A == 576


def test_what_a_child_leaves_behind_is_beside_its_sibling():
    assert example(result_is_read=True) == 608


def test_a_parent_gives_its_space_to_a_child_that_runs_after_its_last_use():
    assert example(a_is_read_last=False) == D


def test_a_child_that_is_done_with_its_own_gives_it_to_the_grandchild():
    # b is last read by the instruction that makes c: both live there, so only a is saved.
    assert example(a_is_read_last=False, b_is_read_after_grandchild=False) == max(D, B + C)


@given(timelines(), st.integers(0, 2**32), st.sampled_from([16, 64]))
def test_nothing_is_overwritten_on_any_path(timeline, seed, alignment):
    options = Options(alignment=alignment)
    requests = requests_of(timeline.storages, live_pieces(timeline), options, {})
    placed = place_in_pools(list(requests.values()), {1: None}, alignment, 0, 0)
    check_places(requests.values(), {1: placed[1].nbytes} if placed else {})
    for round_ in range(5):
        Machine(timeline, requests, Random(seed + round_)).run()


def test_the_sweep_finds_what_overlaps_and_what_sticks_out():
    one, other = Request("one", 64, [(0, 3)], (1,)), Request("other", 64, [(2, 4), (6, 7)], (1,))
    other.offset = 48
    with pytest.raises(PlanError, match=r"'one' and 'other' are both alive at position 2 and share bytes from 48"):
        check_places([one, other], {1: 112})
    other.offset = 64
    check_places([one, other], {1: 128})
    with pytest.raises(PlanError, match="'other' ends at byte 128 of memory id 1, which has 127 bytes"):
        check_places([one, other], {1: 127})
    other.offset, other.pieces = 0, [(3, 4)]
    check_places([one, other], {1: 64})


def test_a_full_pool_gives_up_what_may_be_elsewhere():
    big = Request("big", 256, [(0, 4)], (1, 2))
    small = [Request(f"small {i}", 64, [(0, 4)], (1, 2)) for i in range(2)]
    placed = place_in_pools([big, *small], {1: 320, 2: None}, 16, 0, 0)
    assert (big.pool, sorted(request.pool for request in small)) == (1, [1, 2])
    assert (placed[1].nbytes, placed[2].nbytes) == (320, 64)


def test_a_pool_that_could_be_large_enough_is_searched_exactly():
    sizes = [80, 80, 64, 64, 64, 16, 16, 80, 80, 32, 32, 48]
    first, last = [6, 4, 5, 1, 3, 4, 5, 6, 0, 6, 2, 5], [10, 7, 6, 6, 6, 7, 9, 9, 5, 10, 7, 7]
    requests = [Request(f"v{i}", size, [(first[i], last[i])], (1,)) for i, size in enumerate(sizes)]
    bound = max(sum(r.nbytes for r in requests if r.pieces[0][0] <= p < r.pieces[0][1]) for p in range(10))
    assert bound == 384
    assert place_in_pools(requests, {1: None}, 16, 0, 0)[1].nbytes == 400  # what the heuristics find
    assert place_in_pools(requests, {1: bound}, 16, 0, 0)[1].nbytes == bound
    check_places(requests, {1: bound})


def test_what_does_not_fit_is_named_with_the_bytes_that_are_missing():
    requests = [Request(name, 256, [(0, 4)], (1,)) for name in ("left", "right")]
    with pytest.raises(ExportError) as caught:
        place_in_pools(requests, {1: 300}, 16, 0, 64)
    for part in ("memory id 1 has 300 bytes", "276 too few", "576 are needed", "512 are live", "'left' (256 bytes)"):
        assert part in str(caught.value)


def test_a_small_pool_gives_up_most_of_a_long_program():
    # Each value lives until the next but one is made, so that two of them are alive: three rooms would hold all.
    requests = [Request(f"v{at}", 64 * (1 + at % 7), [(at, at + 2)], (1, 2)) for at in range(1200)]
    placed = place_in_pools(requests, {1: 128, 2: None}, 64, 0, 0)
    check_places(requests, {pool: found.nbytes for pool, found in placed.items()})
    assert placed[1].nbytes <= 128
    assert placed[2].nbytes >= 64 * (6 + 7)  # the two largest neighbours cannot be in the first
    assert {request.nbytes for request in requests if request.pool == 1} <= {64, 128}
    assert any(request.pool == 1 for request in requests)
