import csv
import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etarena.allocator import RULES, OffsetPlanner, SizeOverflowError, find_faults, plan_offsets, verify

MODELS = sorted((Path(__file__).parent.parent / "data" / "models").glob("*.csv"))


def read(path):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return [[int(row[column]) for row in rows] for column in ("size", "lower", "upper")]


@st.composite
def buffer_lists(draw, max_buffers=24, max_size=1000, horizon=20):
    n = draw(st.integers(0, max_buffers))
    sizes = draw(st.lists(st.integers(0, max_size), min_size=n, max_size=n))
    first = draw(st.lists(st.integers(-horizon, horizon - 1), min_size=n, max_size=n))
    last = [start + draw(st.integers(1, horizon)) for start in first]
    return sizes, first, last


def smallest_peak(sizes, first, last):
    """Optimum for a few buffers by trying first fit in every order, which is exact."""

    def place(order):
        offsets = {}
        for i in order:
            ends = [0] + [offsets[j] + sizes[j] for j in offsets if first[i] < last[j] and first[j] < last[i]]
            for offset in sorted(ends):
                if all(
                    offset + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offset
                    for j in offsets
                    if first[i] < last[j] and first[j] < last[i]
                ):
                    offsets[i] = offset
                    break
        return max(offsets[i] + sizes[i] for i in order)

    return min(place(order) for order in itertools.permutations(range(len(sizes))))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_models_come_within_one_percent_of_the_lower_bound(path):
    sizes, first, last = read(path)
    plan = plan_offsets(sizes, first, last)
    verify(plan, sizes, first, last)
    assert plan.peak <= 1.01 * plan.lower_bound


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_rule_alone_gives_a_sound_plan(path, rule):
    sizes, first, last = read(path)
    plan = plan_offsets(sizes, first, last, rules=[rule], effort=0)
    verify(plan, sizes, first, last)
    assert plan.rule == rule
    assert plan.peak >= plan.lower_bound


def test_repair_helps_where_the_rule_alone_fails():
    sizes, first, last = read(next(path for path in MODELS if path.stem.startswith("vit")))
    alone = plan_offsets(sizes, first, last, rules=["execution"], effort=0)
    repaired = plan_offsets(sizes, first, last, rules=["execution"], effort=1)
    verify(repaired, sizes, first, last)
    assert repaired.peak < alone.peak
    assert repaired.rule == "execution + repair"


@given(buffer_lists(), st.sampled_from([1, 16, 64, 4096]), st.sampled_from(RULES), st.integers(0, 2))
def test_plans_are_sound(buffers, alignment, rule, effort):
    plan = plan_offsets(*buffers, alignment, rules=[rule], effort=effort)
    verify(plan, *buffers, alignment)
    assert sorted(plan.order) == list(range(len(buffers[0])))
    assert plan.peak >= plan.lower_bound


@given(buffer_lists(max_buffers=6, max_size=9, horizon=5))
@settings(max_examples=60)
def test_small_lists_are_planned_as_well_as_possible(buffers):
    sizes, first, last = ([*column, extra] for column, extra in zip(buffers, (5, 0, 2), strict=True))
    assert plan_offsets(sizes, first, last, 1, effort=50).peak == smallest_peak(sizes, first, last)


@pytest.mark.parametrize("n", [150, 400])
def test_lists_in_which_everything_overlaps(n):
    """More overlaps than are listed: the path through the stack of placed buffers."""
    numbers = random.Random(n)
    sizes = [numbers.randrange(1, 5000) for _ in range(n)]
    first = [numbers.randrange(0, 50) for _ in range(n)]
    last = [numbers.randrange(50, 100) for _ in range(n)]
    plan = plan_offsets(sizes, first, last)
    verify(plan, sizes, first, last)
    assert plan.lower_bound == sum(sizes)


def test_few_long_lived_buffers_among_many_short_ones():
    """Some buffers overlap hundreds of others, most overlap few: both ways of fitting in one plan."""
    n = 300
    sizes = [64 * (1 + i % 7) for i in range(n)] + [640, 1280]
    first = [*range(n), 0, 0]
    last = [i + 3 for i in range(n)] + [n, n]
    plan = plan_offsets(sizes, first, last)
    verify(plan, sizes, first, last)
    assert plan.peak == plan.lower_bound == 640 + 1280 + 64 * (5 + 6 + 7)


@given(buffer_lists(), st.randoms(use_true_random=False))
def test_pinned_buffers_stay(buffers, numbers):
    sizes, first, last = buffers
    before = plan_offsets(sizes, first, last)
    pinned = {i: before.offsets[i] + 4096 for i in range(len(sizes)) if numbers.random() < 0.3}
    plan = plan_offsets(sizes, first, last, pinned=pinned)
    verify(plan, sizes, first, last, pinned=pinned)
    assert sorted(plan.order) == [i for i in range(len(sizes)) if i not in pinned]


def test_what_is_live_across_a_pinned_call_goes_above_it():
    # A scratch of 100 bytes at offset 0 for instruction 1; buffer 1 lives across the call, buffer 2 comes after it.
    plan = plan_offsets([100, 64, 80], [1, 0, 2], [2, 3, 3], pinned={0: 0})
    assert plan.offsets == [0, 128, 0]
    assert plan.peak == 192
    assert plan.lower_bound == 164


def test_overlapping_pins_are_refused():
    with pytest.raises(ValueError, match="buffers 0 and 1 are pinned to overlapping bytes"):
        plan_offsets([64, 64], [0, 0], [1, 1], pinned={0: 0, 1: 32})
    assert plan_offsets([64, 64], [0, 1], [1, 2], pinned={0: 0, 1: 32}).peak == 96  # not live together


@given(buffer_lists(), st.data())
def test_an_order_replays_its_plan(buffers, data):
    plan = plan_offsets(*buffers)
    again = plan_offsets(*buffers, order=plan.order, effort=0)
    assert again.peak <= plan.peak
    partial = data.draw(st.permutations(plan.order))[: len(plan.order) // 2]
    verify(plan_offsets(*buffers, order=partial, effort=0), *buffers)


def test_a_good_order_is_used_as_it_is():
    sizes, first, last = read(MODELS[0])
    best = plan_offsets(sizes, first, last)
    plan = plan_offsets(sizes, first, last, order=best.order)
    assert plan.rule == "given"
    assert plan.offsets == best.offsets


@given(st.lists(buffer_lists(max_buffers=8), min_size=2, max_size=6))
def test_one_planner_plans_many_lists(lists):
    planner = OffsetPlanner()
    for buffers in lists:
        assert planner.find(*buffers) == plan_offsets(*buffers)


def test_a_planner_sees_new_sizes_for_known_lifetimes():
    planner = OffsetPlanner()
    assert planner.find([64, 64], [0, 0], [1, 1]).peak == 128
    assert planner.find([64, 640], [0, 0], [1, 1]).peak == 704
    assert planner.find([64, 640], [0, 1], [1, 2]).peak == 640


def test_the_maximum_over_branches_counts_and_not_their_sum():
    # A root of 64 bytes; one branch of 256 with a child of 128, another of 512; the branches never live together.
    assert plan_offsets([64, 256, 128, 512], [0, 1, 2, 4], [5, 3, 3, 5]).peak == 64 + max(256 + 128, 512)
    # The first branch leaves 32 bytes that are read after the second.
    assert plan_offsets([64, 256, 128, 512, 32], [0, 1, 2, 4, 2], [5, 3, 3, 5, 6]).peak == 64 + 512 + 32


def test_empty_buffers_are_in_nobodys_way():
    plan = plan_offsets([0, 64, 0, 64], [0, 0, 0, 0], [9, 9, 9, 9])
    assert plan.peak == plan.lower_bound == 128
    assert plan.offsets[0] == plan.offsets[2] == 0


def test_small_buffers_do_not_cost_a_whole_line():
    plan = plan_offsets([4, 4, 20, 100], [0] * 4, [1] * 4, 64)
    assert plan.peak <= 100 + 3 * 32
    assert all(offset % step == 0 for offset, step in zip(plan.offsets, (16, 16, 32, 64), strict=True))


def test_nothing_to_plan():
    plan = plan_offsets([], [], [])
    assert (plan.offsets, plan.peak, plan.lower_bound, plan.order) == ([], 0, 0, [])


def test_plans_do_not_depend_on_the_machine():
    sizes, first, last = read(next(path for path in MODELS if path.stem.startswith("vit")))
    plans = [plan_offsets(sizes, first, last, rules=["execution"], effort=2) for _ in range(2)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("sizes", "first", "last", "options", "message"),
    [
        ([1, 2], [0], [1, 1], {}, "2 sizes, 1 first and 2 last"),
        ([-1], [0], [1], {}, "buffer 0 has a negative size of -1 bytes"),
        ([1], [3], [3], {}, "buffer 0 lives at positions 3 <= p < 3, which is never"),
        ([1], [0], [1], {"alignment": 48}, "alignment 48 is no power of two"),
        ([1], [0], [1], {"alignment": 0}, "alignment 0 is no power of two"),
        ([1], [0], [1], {"order": [1]}, r"order\[0\]: buffer 1"),
        ([1, 1], [0, 0], [1, 1], {"order": [1, 1]}, r"order\[1\]: buffer 1 comes twice"),
        ([1], [0], [1], {"order": [-1]}, r"order\[0\]: buffer -1"),
        ([1], [0], [1], {"pinned": {1: 0}}, "0 is no offset of one of 1 buffers"),
        ([1], [0], [1], {"pinned": {0: -8}}, "-8 is no offset of one of 1 buffers"),
        ([1], [0], [1], {"pinned": {0: 2**62}}, "cannot be pinned at offset"),
        ([1], [0], [1], {"effort": -1}, "effort -1 is out of range"),
        ([1], [0], [1], {"rules": ["best"]}, "there is no rule 'best'"),
        ([1], [0], [1], {"rules": []}, "no rules"),
        (bytes(8), [0] * 8, [1] * 8, {}, "sizes: 1 numbers in a sequence of length 8"),
        ([1] * 8, [0] * 8, bytes([1] * 8), {}, "last: 2 numbers in a sequence of length 8"),
        ([1] * 4, [0] * 4, [1] * 4, {"order": bytes(4)}, "order: 1 numbers in a sequence of length 4"),
    ],
)
def test_bad_arguments_are_refused(sizes, first, last, options, message):
    with pytest.raises(ValueError, match=message):
        plan_offsets(sizes, first, last, **options)


@pytest.mark.parametrize("sizes", [[2**62, 2**62], [2**61], [2**63], [2**60] * 3])
def test_sizes_that_overflow_are_refused(sizes):
    with pytest.raises(SizeOverflowError):
        plan_offsets(sizes, [0] * len(sizes), [1] * len(sizes))


def test_positions_at_the_limits_of_32_bits():
    first, last = [-(2**31), 0], [2**31 - 1, 2**31 - 1]
    assert plan_offsets([64, 64], first, last).peak == 128
    with pytest.raises(SizeOverflowError, match="last"):
        plan_offsets([64], [0], [2**31])


def test_a_planner_is_usable_after_a_refusal():
    planner = OffsetPlanner()
    with pytest.raises(ValueError, match="never"):
        planner.find([1], [1], [1])
    assert planner.find([64], [0], [1]).peak == 64


def test_faults_of_a_damaged_plan_are_found():
    sizes, first, last = [64, 64, 64], [0, 0, 1], [1, 2, 2]
    plan = plan_offsets(sizes, first, last)
    assert find_faults([0, 0, 64], plan.peak, sizes, first, last)[0].buffers == (0, 1)
