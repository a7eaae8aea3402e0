"""Plans that get better while they are in use."""

import threading

import pytest

from etarena.allocator import AnytimePlanner, plan_offsets, verify

from .test_planner_exact import HARD

EASY = [64, 64], [0, 1], [1, 2]


def test_a_plan_gets_better_in_the_background():
    buffers = HARD["C"].buffers
    with AnytimePlanner(*buffers, 1, timeout=300) as planner:
        first = plan_offsets(*buffers, 1)
        while (plan := planner.wait(0.05)).peak == first.peak and planner.running:
            pass
    verify(plan, *buffers, 1)
    assert plan.peak < first.peak
    assert plan_offsets(*buffers, 1, order=plan.order, effort=0).peak <= plan.peak


def test_every_plan_that_is_seen_is_whole():
    buffers = HARD["K"].buffers
    seen = []

    def watch(planner):
        while planner.running:
            if (plan := planner.take()) is not None:
                seen.append(plan)

    with AnytimePlanner(*buffers, 1, timeout=300) as planner:
        watcher = threading.Thread(target=watch, args=(planner,))
        watcher.start()
        planner.wait(2)
    watcher.join()
    for plan in seen:
        verify(plan, *buffers, 1)
    assert [plan.peak for plan in seen] == sorted((plan.peak for plan in seen), reverse=True)


def test_taking_gives_each_plan_once():
    planner = AnytimePlanner(*EASY)
    assert planner.take() is planner.plan
    assert planner.take() is None


def test_a_plan_at_the_bound_is_left_alone():
    with AnytimePlanner(*EASY) as planner:
        assert not planner.running
        assert planner.plan.peak == planner.plan.lower_bound


def test_it_ends_when_there_is_nothing_better():
    # Two of 48 bytes and three of 32 that chase each other: no plan meets the bound with these alignments.
    buffers = [100, 100, 100], [0, 0, 0], [1, 1, 1]
    with AnytimePlanner(*buffers, 64, timeout=300) as planner:
        plan = planner.wait()
    assert not planner.running
    assert plan.peak == 128 + 128 + 100


def test_closing_ends_the_search_at_once_and_for_good():
    planner = AnytimePlanner(*HARD["E"].buffers, 1, timeout=600)
    planner.start()
    assert planner.running
    planner.close()
    assert not planner.running
    planner.start()
    assert not planner.running
    planner.close()


def test_pins_and_groups_are_kept():
    sizes, first, last = HARD["C"].buffers
    options = {"pinned": {0: 0}, "groups": [[1, 2]]}
    with AnytimePlanner(sizes, first, last, 1, timeout=300, **options) as planner:
        plan = planner.wait(0.5)
    verify(plan, sizes, first, last, 1, **options)


def test_a_pin_holds_for_the_whole_group_also_if_the_pinned_buffer_is_empty():
    # 1 must be where 3 is pinned, although 3 needs no room and 1 alone could be at 0, which the search would find.
    with AnytimePlanner(
        [160, 200, 112, 0], [8, 6, 2, 5], [13, 7, 3, 10], 16, pinned={3: 64}, groups=[[1, 3]]
    ) as planner:
        plan = planner.wait()
    assert plan.offsets[1] == 64
    assert plan.peak == 64 + 200


def test_a_negative_timeout_is_refused():
    with pytest.raises(ValueError, match="timeout -1 is negative"):
        AnytimePlanner(*EASY, timeout=-1)
