import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etarena.allocator import OffsetPlanner, SizeOverflowError, plan_offsets, verify
from etarena.allocator.oriented import OrientedPlanner

from .test_planner import MODELS, buffer_lists, read

WITH_SCRATCH = Path(__file__).parent.parent / "data" / "with_scratch"


@st.composite
def shapes_of_one_model(draw):
    """Lifetimes, and some lists of sizes for them, empty buffers among them."""
    sizes, first, last = draw(buffer_lists(max_buffers=16))
    others = st.lists(st.integers(0, 5000), min_size=len(sizes), max_size=len(sizes))
    return [sizes, *draw(st.lists(others, min_size=1, max_size=5))], first, last


def rounded_bound(sizes, first, last):
    """The bound by hand: the largest sum of live sizes, each rounded up to its alignment."""

    def rounded(size):
        step = 16
        while step < min(size, 64):
            step *= 2
        return -(-size // step) * step

    starts = set(first)
    buffers = list(zip(sizes, first, last, strict=True))
    return max((sum(rounded(size) for size, a, b in buffers if a <= t < b) for t in starts), default=0)


@given(shapes_of_one_model())
def test_plans_for_other_sizes_are_sound_and_stay_what_they_were(case):
    shapes, first, last = case
    planner = OrientedPlanner(OffsetPlanner())
    plans = []
    for sizes in shapes:
        plans.append(planner.find(sizes, first, last))
        verify(plans[-1], sizes, first, last)
        if planner.replayed:
            assert plans[-1].peak <= 1.01 * rounded_bound(sizes, first, last) + 1
        else:
            assert plans[-1].peak <= OffsetPlanner().find(sizes, first, last).peak
    for sizes, plan in zip(shapes, plans, strict=True):
        again = planner.find(sizes, first, last)
        assert (again.offsets, again.peak) == (plan.offsets, plan.peak)


@given(shapes_of_one_model())
def test_every_order_gives_a_sound_plan_for_any_sizes(case):
    shapes, first, last = case
    planner = OrientedPlanner(OffsetPlanner())
    for sizes in shapes:
        planner.find(sizes, first, last)
    for sizes in shapes:
        for plan in planner.replays(sizes):
            verify(plan, sizes, first, last)
            assert sorted(plan.order) == list(range(len(sizes)))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_models_are_searched_once_for_sizes_in_proportion(path):
    sizes, first, last = read(path)
    planner = OrientedPlanner(OffsetPlanner())
    planner.find(sizes, first, last)
    for scale in (2, 3, 8):
        scaled = [size * scale for size in sizes]
        plan = planner.find(scaled, first, last)
        verify(plan, scaled, first, last)
        assert planner.replayed
        assert plan.peak <= 1.01 * plan.lower_bound


def test_what_rules_leave_above_the_bound_is_searched_once_for_all_sizes():
    longest, middle, shortest = (read(WITH_SCRATCH / f"llama12l.{tokens}.csv") for tokens in (64, 30, 4))
    assert longest[1:] == middle[1:] == shortest[1:]
    rules = plan_offsets(*longest)
    assert rules.peak > 1.02 * rules.lower_bound
    planner = OrientedPlanner(OffsetPlanner())
    for buffers in (longest, middle, shortest):
        plan = planner.find(*buffers)
        verify(plan, *buffers)
        assert plan.peak <= 1.0005 * rounded_bound(*buffers) + 1
        assert planner.replayed == (buffers is not longest)


def test_searches_end_for_lifetimes_that_they_do_not_help():
    # Rules leave 8 % above the bound here, and exact search does not get below 1 % in so few nodes.
    draw = random.Random(5)
    first = [draw.randrange(400) for _ in range(2000)]
    last = [start + draw.randint(1, 40) for start in first]
    planner = OrientedPlanner(OffsetPlanner())
    for _ in range(6):
        sizes = [draw.randint(1, 10**6) for _ in first]
        plan = planner.find(sizes, first, last)
        assert plan.peak > 1.01 * plan.lower_bound
        assert plan.offsets == OffsetPlanner().find(sizes, first, last).offsets
        assert planner.count == 0


def test_a_bad_replay_is_not_taken():
    # 1 below 0 and 2, which take turns; with other sizes 0 and 1 grow, and 2 alone should lie above both.
    first, last = [0, 0, 2, 0], [2, 4, 4, 1]
    planner = OrientedPlanner(OffsetPlanner())
    random.seed(1)
    searched = 0
    for _ in range(60):
        sizes = [random.choice((64, 640, 6400)) for _ in first]
        plan = planner.find(sizes, first, last)
        searched += not planner.replayed
        verify(plan, sizes, first, last)
        assert plan.peak <= 1.01 * plan_offsets(sizes, first, last).peak
    assert 1 < searched < 60


def test_orders_are_forgotten_with_the_lifetimes():
    planner = OrientedPlanner(OffsetPlanner())
    planner.find([64, 128], [0, 0], [1, 1])
    planner.find([64, 256], [0, 0], [1, 1])
    assert planner.replayed
    plan = planner.find([64, 256, 64], [0, 0, 1], [2, 1, 3])
    assert not planner.replayed
    assert planner.count == 1
    verify(plan, [64, 256, 64], [0, 0, 1], [2, 1, 3])
    assert planner.find([], [], []).peak == 0


def test_the_number_of_orders_is_limited():
    first, last = [0, 1, 2, 3, 0, 2, 4], [2, 3, 4, 5, 5, 6, 6]
    planner = OrientedPlanner(OffsetPlanner())
    random.seed(2)
    for _ in range(300):
        sizes = [random.choice((0, 64, 320, 4096, 65536)) for _ in first]
        verify(planner.find(sizes, first, last), sizes, first, last)
    assert planner.count <= 8


def test_bad_buffers_are_refused_and_leave_the_planner_as_it_was():
    planner = OrientedPlanner(OffsetPlanner())
    good = planner.find([64, 128], [0, 0], [1, 1])
    with pytest.raises(ValueError, match="negative"):
        planner.find([64, -1], [0, 0], [1, 1])
    with pytest.raises(SizeOverflowError):
        planner.find([2**62, 2**62], [0, 0], [1, 1])
    with pytest.raises(ValueError, match="never"):
        planner.find([64, 64], [0, 1], [1, 1])
    with pytest.raises(ValueError, match="as many of each"):
        planner.find([64], [0, 1], [1, 1])
    with pytest.raises(TypeError):
        OrientedPlanner(None)
    assert planner.find([64, 128], [0, 0], [1, 1]).offsets == good.offsets
    with pytest.raises(ValueError, match="1 sizes for 2 lifetimes"):
        planner.replays([1])
    with pytest.raises(ValueError, match="negative"):
        planner.replays([1, -1])
    with pytest.raises(SizeOverflowError):
        planner.find([2**64, 128], [0, 0], [1, 1])
    with pytest.raises(SizeOverflowError):
        planner.replays([2**64, 128])


def test_no_order_is_replayed_for_lifetimes_other_than_its_own():
    # The planner belongs to the caller too, who may plan fewer buffers in between, or fail to.
    planner = OrientedPlanner(OffsetPlanner())
    many = [64] * 2000, [0] * 2000, [1] * 2000
    planner.find(*many)
    assert len(planner.replays(many[0])) == 1
    planner.planner.find([64], [0], [1])
    assert planner.replays([64]) == []
    planner.find(*many)
    with pytest.raises(ValueError, match="never"):
        planner.find([64], [1], [1])
    assert planner.replays([]) == []
    assert planner.find(*many).peak == 2000 * 64
