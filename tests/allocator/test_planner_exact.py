"""Exact search: in C, its budget, its proofs, and the plans it gives."""

import itertools
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.planner import read_problems
from etarena.allocator import ArenaFullError, OffsetPlanner, plan_exact, plan_offsets, verify
from etarena.allocator.exact import ExactSearch

DATA = Path(__file__).parent.parent / "data"
MODELS = read_problems(DATA / "models")
HARD = {problem.name[0]: problem for problem in read_problems(DATA / "minimalloc")}
FOUND, INFEASIBLE, STOPPED = 1, 0, -1
SECOND = 10**9


@st.composite
def buffer_lists(draw, max_buffers=8, max_size=9, horizon=6):
    n = draw(st.integers(1, max_buffers))
    sizes = draw(st.lists(st.integers(0, max_size), min_size=n, max_size=n))
    first = draw(st.lists(st.integers(0, horizon - 1), min_size=n, max_size=n))
    last = [start + draw(st.integers(1, horizon)) for start in first]
    return sizes, first, last


def smallest_peak(sizes, first, last, step=1):
    """Optimum by first fit in every order: the order of the offsets of an optimal plan is one of them."""
    best = None
    occupied = [i for i in range(len(sizes)) if sizes[i]]
    for order in itertools.permutations(occupied):
        offsets = {}
        for i in order:
            near = sorted((offsets[j], sizes[j]) for j in offsets if first[i] < last[j] and first[j] < last[i])
            offset = 0
            for start, size in near:
                if start < offset + sizes[i] and start + size > offset:
                    offset = -(-(start + size) // step) * step
            offsets[i] = offset
        peak = max((offsets[i] + sizes[i] for i in order), default=0)
        best = peak if best is None else min(best, peak)
    return best


@given(buffer_lists(max_buffers=6), st.sampled_from([1, 4]))
@settings(max_examples=60)
def test_the_search_finds_the_optimum_and_proves_it(buffers, step):
    sizes = buffers[0]
    best = smallest_peak(*buffers, step)
    search = ExactSearch()
    if not search.load(*buffers, alignments=[step] * len(sizes)):
        assert not any(sizes)
        return
    status, offsets = search.within(best, 10**6, SECOND)
    assert status == FOUND
    assert max(offset + size for offset, size in zip(offsets, sizes, strict=True) if size) <= best
    if best > max(sizes):
        assert search.within(best - 1, 10**6, SECOND) == (INFEASIBLE, [])
    assert search.lower(0, best, 10**6, SECOND)[0] == INFEASIBLE


@given(
    buffer_lists(max_buffers=30, max_size=500, horizon=20), st.sampled_from([1, 64]), st.randoms(use_true_random=False)
)
def test_searched_plans_are_sound_with_pins(buffers, alignment, numbers):
    sizes = buffers[0]
    before = plan_offsets(*buffers, alignment)
    pinned = {i: before.offsets[i] + 192 for i in range(len(sizes)) if numbers.random() < 0.2}
    plan = OffsetPlanner(alignment, budget_ns=SECOND, max_nodes=500, thorough=True).find(*buffers, pinned=pinned)
    verify(plan, *buffers, alignment, pinned=pinned)
    again = plan_offsets(*buffers, alignment, pinned=pinned, order=plan.order, effort=0)
    assert again.peak <= plan.peak


@pytest.mark.parametrize("problem", MODELS, ids=lambda problem: problem.name)
def test_models_are_planned_at_their_lower_bound(problem):
    plan = plan_offsets(*problem.buffers, effort="export")
    verify(plan, *problem.buffers)
    assert plan.peak == plan.lower_bound


@pytest.mark.parametrize("name", ["A", "C", "D", "F", "H", "J", "K"])
def test_hard_instances_fit_their_capacity(name):
    problem = HARD[name]
    plan = plan_exact(*problem.buffers, 1, problem.capacity, timeout=300)
    verify(plan, *problem.buffers, 1)
    assert plan.peak <= problem.capacity
    again = plan_offsets(*problem.buffers, 1, order=plan.order, effort=0, rules=["size, execution"])
    assert again.rule == "given"
    assert again.peak <= problem.capacity


def test_search_improves_on_rules_and_depends_on_nodes_only():
    problem = HARD["B"]
    rules = plan_offsets(*problem.buffers)
    plans = [OffsetPlanner(max_nodes=4000).find(*problem.buffers) for _ in range(2)]
    verify(plans[0], *problem.buffers)
    assert plans[0] == plans[1]
    assert plans[0].peak < rules.peak
    assert plans[0].rule == "exact"


def test_no_plan_below_the_lower_bound():
    with pytest.raises(ArenaFullError, match="no offsets fit 127 bytes: the lower bound is 128 bytes"):
        plan_exact([64, 64], [0, 0], [1, 1], capacity=127)


def test_a_search_without_time_says_so():
    problem = HARD["E"]
    with pytest.raises(ArenaFullError, match=r"no offsets were found within 0\.0 s that fit 1048576 bytes.*more time"):
        plan_exact(*problem.buffers, 1, problem.capacity, timeout=0.0)
    assert plan_exact(*problem.buffers, 1, max_nodes=0).peak >= problem.capacity
    hard = HARD["D"].buffers
    assert plan_exact(*hard, timeout=0.0).rule != "exact"
    assert OffsetPlanner(max_nodes=0).find(*hard) == OffsetPlanner().find(*hard)


def test_a_search_is_cancelled_from_another_thread():
    problem = HARD["D"]  # its lower bound is 6 % below what any search has reached
    search = ExactSearch()
    assert search.load(*problem.buffers)
    timer = threading.Timer(0.05, search.cancel)
    timer.start()
    assert search.within(986112, 1 << 60, 600 * SECOND) == (STOPPED, [])
    timer.join()


def test_what_alignment_costs_is_not_searched_for_at_run_time():
    buffers = [100, 100], [0, 0], [1, 1]
    assert OffsetPlanner(budget_ns=SECOND).find(*buffers).rule != "exact"
    assert plan_offsets(*buffers, effort="export").peak == 228


@pytest.mark.parametrize("short", ["first", "last", "leader", "alignments"])
def test_a_problem_with_a_list_that_is_too_short_is_refused(short):
    lists = {"first": [0, 0], "last": [1, 1], "leader": [0, 1], "alignments": [16, 16]}
    search = ExactSearch()
    with pytest.raises(ValueError, match="for each of 2 buffers"):
        search.load([64, 64], **lists | {short: [1]})
    assert search.load([64, 64], **lists)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget_ns": -1}, "budget_ns -1"),
        ({"budget_ns": 1 << 61}, "out of range"),
        ({"effort": "best"}, "effort"),
    ],
)
def test_bad_budgets_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plan_offsets([1], [0], [1], **options)


@pytest.mark.parametrize("options", [{"capacity": -1}, {"timeout": -1.0}, {"max_nodes": -1}])
def test_negative_limits_are_refused(options):
    with pytest.raises(ValueError, match="is negative"):
        plan_exact([1], [0], [1], **options)


def test_nothing_to_search():
    assert plan_exact([], [], [], capacity=0).offsets == []
    assert plan_exact([0], [0], [1], capacity=0).peak == 0
    assert not ExactSearch().load([], [], [])


@pytest.mark.parametrize(
    "problem",
    [
        {"sizes": [-1, 2]},
        {"first": [0, 1]},
        {"leader": [0, 7]},
        {"leader": [1, 1]},
        {"leader": [0, -1]},
        {"pinned": {2: 0}},
        {"pinned": {-1: 0}},
        {"alignments": [16, 0]},
        {"alignments": [16]},
        {"last": [1]},
    ],
)
def test_a_search_refuses_what_no_planner_accepts(problem):
    search = ExactSearch()
    with pytest.raises(ValueError, match=r"."):
        search.load(**{"sizes": [1, 2], "first": [0, 0], "last": [1, 1], **problem})
    assert search.load([64, 64], [0, 0], [1, 1])
    assert search.fit([1, 0]) == (128, [64, 0])
    for order in ([2], [-1], [0, 1, 10**6]):
        with pytest.raises(ValueError, match="is not one of 2 buffers"):
            search.fit(order)


@pytest.mark.parametrize("ask", [("within", 9, 9, 9), ("lower", 0, 9, 9, 9), ("fit", [0])])
def test_a_search_without_a_problem_says_so(ask):
    search = ExactSearch()
    for _ in range(2):
        with pytest.raises(ValueError, match="load a problem first"):
            getattr(search, ask[0])(*ask[1:])
        assert not search.load([0], [0], [1])  # nothing that needs room
