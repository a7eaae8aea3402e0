"""What every planner must keep, the compiled one and the reference: tested on both with all options crossed."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etarena.allocator import RULES, FaultKind, OffsetPlanner, find_faults, plan_offsets, verify
from etarena.allocator.reference_planner import reference_plan

PLANNERS = {"compiled": plan_offsets, "reference": reference_plan}
both = pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)


@st.composite
def problems(draw, max_buffers=14, max_size=400, horizon=12):
    """Buffers with everything: empty ones, alignments, groups, and pins that leave room."""
    n = draw(st.integers(0, max_buffers))
    sizes = draw(st.lists(st.integers(0, max_size), min_size=n, max_size=n))
    first = draw(st.lists(st.integers(0, horizon - 1), min_size=n, max_size=n))
    last = [start + draw(st.integers(1, horizon)) for start in first]
    numbers = draw(st.permutations(range(n)))
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=3)))
    parts = [numbers[a:b] for a, b in itertools.pairwise([0, *cuts])]
    groups = [part for part in parts if len(part) > 1]
    alignment = draw(st.sampled_from([1, 16, 64, "own"]))
    if alignment == "own":
        alignment = draw(st.lists(st.sampled_from([1, 2, 32, 256]), min_size=n, max_size=n))
    grouped = {i for group in groups for i in group}
    pinned = {}
    for i in range(n):
        if i not in grouped and draw(st.integers(0, 4)) == 0:
            pinned[i] = 1000 * len(pinned)  # no two overlap
    return (sizes, first, last, alignment), {"pinned": pinned, "groups": groups}


@both
@given(problem=problems())
def test_plans_are_sound(planner, problem):
    arguments, options = problem
    plan = planner(*arguments, **options)
    verify(plan, *arguments, **options)
    assert plan.peak >= plan.lower_bound
    assert all(plan.offsets[i] == offset for i, offset in options["pinned"].items())
    assert sorted([*plan.order, *options["pinned"]]) == list(range(len(arguments[0])))


@both
@given(problem=problems(), data=st.data())
def test_permuting_the_input_does_not_change_validity(planner, problem, data):
    (sizes, first, last, alignment), options = problem
    new = data.draw(st.permutations(range(len(sizes))))
    old = {i: position for position, i in enumerate(new)}
    arguments = (
        *([column[i] for i in new] for column in (sizes, first, last)),
        alignment if isinstance(alignment, int) else [alignment[i] for i in new],
    )
    moved = {
        "pinned": {old[i]: offset for i, offset in options["pinned"].items()},
        "groups": [[old[i] for i in group] for group in options["groups"]],
    }
    plan = planner(*arguments, **moved)
    verify(plan, *arguments, **moved)
    assert plan.lower_bound == planner(sizes, first, last, alignment, **options).lower_bound


@given(problem=problems())
def test_both_planners_agree_on_the_lower_bound(problem):
    arguments, options = problem
    assert plan_offsets(*arguments, **options).lower_bound == reference_plan(*arguments, **options).lower_bound


@given(problem=problems(max_buffers=9), data=st.data())
def test_all_switches_crossed_give_sound_plans(problem, data):
    (sizes, first, last, alignment), options = problem
    steps = alignment if not isinstance(alignment, int) else None
    order = data.draw(st.one_of(st.none(), st.permutations(range(len(sizes)))))
    for rules, effort, nodes in itertools.product((RULES[:1], RULES[-1:], RULES), (0, 1), (0, 200)):
        planner = OffsetPlanner(
            64 if steps else alignment, rules=rules, effort=effort, budget_ns=10**10 if nodes else 0, max_nodes=nodes
        )
        plan = planner.find(sizes, first, last, pinned=options["pinned"], order=order, alignments=steps)
        verify(plan, sizes, first, last, alignment, pinned=options["pinned"])
        assert plan.peak >= plan.lower_bound
        again = planner.find(sizes, first, last, pinned=options["pinned"], order=plan.order, alignments=steps)
        assert again.peak <= plan.peak


@both
def test_a_hole_in_a_lifetime_is_used(planner):
    # Buffer 0 lives at 0 and at 2, always at one place; buffer 2 fits into the hole.
    buffers = [64, 64, 64], [0, 2, 1], [1, 3, 2]
    plan = planner(*buffers, groups=[[0, 1]])
    verify(plan, *buffers, groups=[[0, 1]])
    assert plan.peak == plan.lower_bound == 64


@both
def test_aliases_share_the_bytes_of_the_largest(planner):
    buffers = [64, 256, 128], [0, 1, 0], [1, 2, 2]
    plan = planner(*buffers, groups=[[0, 1]])
    verify(plan, *buffers, groups=[[0, 1]])
    assert plan.offsets[0] == plan.offsets[1]
    assert plan.peak == plan.lower_bound == 384


@both
def test_one_pinned_member_pins_its_group(planner):
    plan = planner([64, 64, 64], [0, 1, 0], [1, 2, 2], pinned={1: 64}, groups=[[0, 1]])
    assert plan.offsets == [64, 64, 0]


@both
def test_each_buffer_has_its_own_alignment(planner):
    plan = planner([1, 1, 1], [0] * 3, [1] * 3, [1, 2, 4096])
    verify(plan, [1, 1, 1], [0] * 3, [1] * 3, [1, 2, 4096])
    assert plan.peak <= 4097


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [[0, 2]]}, "buffer 2 is in two groups or is not one of 2"),
        ({"groups": [[0, 1], [1]]}, "buffer 1 is in two groups"),
        ({"groups": [[0, 1]], "pinned": {0: 0, 1: 64}}, "buffer 1 is pinned at 64, another of its group at 0"),
        ({"alignment": [64]}, "1 alignments for 2 buffers"),
        ({"alignment": [64, 3]}, "alignment 3 of buffer 1"),
    ],
)
def test_bad_groups_and_alignments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plan_offsets([64, 64], [0, 1], [1, 2], **options)


def test_a_torn_group_is_found():
    faults = find_faults([0, 64], 128, [64, 64], [0, 1], [1, 2], groups=[[0, 1]])
    assert [fault.kind for fault in faults] == [FaultKind.SEPARATED]
    assert "buffers 0, 1 must share one offset, they are at 0, 64" in faults[0].message
