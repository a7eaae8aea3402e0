"""Lifetimes and storages, on instruction lists small enough to check by hand."""

import pytest

from etarena.liveness import Lifetimes, MovedOutputError, Step, analyse

FLOATS = "float[n]"


def lifetimes(steps, *, outputs=(), fixed=(), tensors=None) -> Lifetimes:
    values = {value for step in steps for value in step.uses} | {v for s in steps for v in s.move or ()} | {*outputs}
    return analyse(steps, tensors or dict.fromkeys(values, FLOATS), outputs, fixed)


def test_a_value_lives_from_its_first_to_its_last_use():
    found = lifetimes([Step("a", (0, 1)), Step("b", (1, 2)), Step("c", (2, 3)), Step("d", (1, 3))], fixed={0})
    assert found.life == {0: (0, 1), 1: (0, 4), 2: (1, 3), 3: (2, 4)}
    assert found.owner == {0: 0, 1: 1, 2: 2, 3: 3}


def test_an_output_lives_to_the_end():
    found = lifetimes([Step("a", (0, 1)), Step("b", (1, 2)), Step("c", (2, 3))], outputs=[1], fixed={0})
    assert found.life[1] == (0, 3)


def test_an_unused_result_still_lives_during_its_instruction():
    found = lifetimes([Step("topk", (0, 1, 2)), Step("b", (1, 3))], fixed={0})
    assert found.life[2] == (0, 1)


def test_a_value_that_nothing_touches_has_no_life():
    found = analyse([Step("a", (0, 1))], {0: FLOATS, 1: FLOATS, 2: FLOATS})
    assert 2 not in found.life
    assert found.owner[2] == 2


def test_an_unused_output_of_an_empty_method_has_an_empty_life():
    assert analyse([], {0: FLOATS}, [0], [0]).life == {0: (0, 0)}


def test_views_extend_their_base():
    steps = [Step("a", (0, 1)), Step("view", (1, 2), ((1, 2),)), Step("view", (2, 3), ((2, 3),)), Step("b", (3, 4))]
    found = lifetimes(steps, fixed={0})
    assert found.owner[3] == found.owner[2] == 1
    assert found.life[1] == (0, 4)
    assert 2 not in found.life


def test_a_view_of_an_input_belongs_to_the_input_even_if_it_was_emitted_later():
    found = lifetimes([Step("view", (7, 3), ((7, 3),)), Step("b", (3, 8))], fixed={7})
    assert found.owner[3] == 7


def branch(*, then, otherwise, after):
    """Instructions of a cond: jump, true branch, jump, false branch, what follows."""
    return [Step("pred", (0, 1)), Step("jump", (1,), target=9), *then, Step("jump", target=99), *otherwise, *after]


def test_results_of_two_branches_share_one_storage_with_the_result():
    steps = branch(
        then=[Step("add", (0, 3)), Step("move", move=(3, 2))],
        otherwise=[Step("sub", (0, 4)), Step("move", move=(4, 2))],
        after=[Step("use", (2, 5))],
    )
    found = lifetimes(steps, fixed={0})
    assert found.owner[3] == found.owner[4] == found.owner[2] == 2
    assert found.life[2] == (2, 8)


def test_a_branch_result_that_is_used_later_keeps_its_own_storage():
    steps = branch(
        then=[Step("add", (0, 3)), Step("move", move=(3, 2))],
        otherwise=[Step("sub", (0, 4)), Step("move", move=(4, 2))],
        after=[Step("use", (2, 5)), Step("use", (3, 6))],
    )
    found = lifetimes(steps, fixed={0})
    assert len({found.owner[2], found.owner[3], found.owner[4]}) == 3
    assert found.life[3] == (2, 9)
    assert found.life[4] == (5, 8)
    assert 2 not in found.life  # the destination's own memory is never used


def test_uses_of_a_destination_count_for_outer_values_that_reach_it():
    steps = [
        Step("make", (0, 1)),
        Step("jump", (0,), target=4),
        Step("move", move=(1, 2)),
        Step("jump", target=6),
        Step("mul", (0, 3)),
        Step("move", move=(3, 2)),
        Step("read", (1, 4)),
        Step("use", (2, 5)),
    ]
    found = lifetimes(steps, fixed={0})
    assert found.life[1] == (0, 8)
    assert found.life[3] == (4, 8)


def test_uses_reach_through_chains_of_moves():
    steps = [
        Step("make", (0, 1)),
        Step("move", move=(1, 2)),
        Step("move", move=(2, 3)),
        Step("read", (1, 5)),
        Step("use", (3, 4)),
    ]
    found = lifetimes(steps, fixed={0})
    assert found.life[1] == (0, 5)


def test_values_of_other_sizes_are_not_joined_by_a_move():
    steps = [Step("a", (0, 1)), Step("move", move=(1, 2)), Step("use", (2, 3))]
    found = lifetimes(steps, fixed={0}, tensors={0: FLOATS, 1: "float[m]", 2: FLOATS, 3: FLOATS})
    assert found.owner[1] != found.owner[2]
    assert found.life[1] == (0, 3)


def test_an_output_that_may_point_at_an_input_is_refused():
    steps = [Step("jump", (1,), target=3), Step("move", move=(0, 2)), Step("jump", target=5)]
    steps += [Step("mul", (0, 3)), Step("move", move=(3, 2))]
    with pytest.raises(MovedOutputError) as refused:
        lifetimes(steps, outputs=[2], fixed={0, 1})
    assert refused.value.value == 2


def test_a_view_of_a_moved_result_counts_for_the_branches():
    steps = [
        Step("a", (0, 1)),
        Step("move", move=(1, 2)),
        Step("view", (2, 3), ((2, 3),)),
        Step("b", (0, 4)),
        Step("use", (3, 5)),
    ]
    found = lifetimes(steps, fixed={0})
    assert found.owner[1] == found.owner[3]
    assert found.life[found.owner[1]] == (0, 5)


def test_what_a_loop_touches_lives_through_all_of_it():
    steps = [
        Step("init", (0, 1)),
        Step("body", (1, 2)),
        Step("body", (2, 3)),
        Step("carry", (3, 1)),
        Step("jump", target=1),
        Step("after", (1, 4)),
    ]
    found = lifetimes(steps, fixed={0})
    assert found.life[2] == found.life[3] == (1, 5)
    assert found.life[1] == (0, 6)
    assert found.life[4] == (5, 6)


def test_nested_loops_extend_to_the_outer_one():
    steps = [
        Step("outer", (1, 2)),
        Step("inner", (2, 3)),
        Step("jump", target=1),
        Step("read", (3, 1)),
        Step("jump", target=0),
    ]
    assert set(lifetimes(steps, fixed={0}).life.values()) == {(0, 5)}


def test_a_forward_jump_extends_nothing():
    found = lifetimes([Step("jump", (9,), target=2), Step("a", (0, 1)), Step("b", (0, 2))], fixed={0, 9})
    assert found.life[1] == (1, 2)


def test_the_definition_is_the_first_touch_even_inside_a_loop():
    steps = [Step("a", (0, 1)), Step("b", (1, 2)), Step("c", (2, 1)), Step("jump", target=0)]
    found = lifetimes(steps, fixed={0})
    assert found.life[2] == (0, 4)
    assert found.definition[2] == 1
