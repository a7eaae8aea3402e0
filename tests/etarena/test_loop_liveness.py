"""Lifetimes around loops: values that every round makes anew, values that are carried, and random programs."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etarena.liveness import Step, analyse

from ..helpers.instruction_machine import Machine, Programs, place

FLOATS = "float[n]"


def op(*uses, label="op"):
    """A step that reads all its arguments but the last, which it writes."""
    return Step(label, uses, writes=uses[-1:])


def lives(steps, *, outputs=(), fixed=()):
    values = {value for step in steps for value in step.uses} | {v for s in steps for v in s.move or ()} | {*outputs}
    return analyse(steps, dict.fromkeys(values, FLOATS), outputs, fixed).life


def loop(condition, body, after=()):
    """The instructions of a while_loop: 0 is an input, 1 what is carried, 9 the condition."""
    head = [op(0, 1), op(1, 9), Step("jump", (9,), target=len(body) + 4)]
    assert condition == 9
    return [*head, *body, Step("jump", target=1, always=True), *after]


def test_what_a_round_makes_and_uses_up_lives_between_the_two():
    found = lives(loop(9, [op(1, 2), op(2, 3), op(3, 1)], [op(1, 4)]), fixed={0})
    assert found == {1: (0, 8), 9: (1, 3), 2: (3, 5), 3: (4, 6), 0: (0, 1), 4: (7, 8)}


def test_what_is_only_read_in_a_loop_lives_through_all_of_it():
    steps = [op(0, 5), *loop(9, [op(1, 5, 2), op(2, 1)])]
    steps[3] = Step("jump", (9,), target=7)
    steps[6] = Step("jump", target=2, always=True)
    assert lives(steps, fixed={0})[5] == (0, 7)


def test_what_a_round_leaves_for_the_next_lives_through_all_of_the_loop():
    found = lives(loop(9, [op(2, 3), op(1, 2), op(3, 1)]), fixed={0})
    assert found[2] == (1, 7)
    assert found[3] == (3, 6)


def test_what_only_one_branch_writes_may_come_from_an_earlier_round():
    body = [Step("jump", (8,), target=5), op(0, 2), op(2, 1)]
    assert lives(loop(9, body), fixed={0, 8})[2] == (1, 7)


def test_what_both_branches_write_does_not():
    body = [Step("jump", (8,), target=6), op(0, 2), Step("jump", target=7, always=True), op(1, 2), op(2, 1)]
    assert lives(loop(9, body), fixed={0, 8})[2] == (4, 8)


def test_what_is_written_row_by_row_lives_through_all_of_the_loop():
    body = [op(1, 3), Step("et_copy_index", (2, 3))]
    assert lives(loop(9, body), fixed={0})[2] == (1, 6)


def test_what_is_read_and_overwritten_by_one_step_is_carried():
    assert lives(loop(9, [Step("add_", (2,), writes=()), op(2, 1)]), fixed={0})[2] == (1, 6)


def test_a_view_that_is_read_makes_the_write_of_its_base_no_new_value():
    body = [Step("view", (2, 3), ((2, 3),)), Step("op", (3, 2), writes=(2,)), op(2, 1)]
    assert lives(loop(9, body), fixed={0})[2] == (1, 7)


def test_an_output_that_a_loop_writes_lives_from_its_first_round_to_the_end():
    found = lives(loop(9, [op(1, 2), op(2, 1)], [op(0, 4)]), outputs=[2], fixed={0})
    assert found[2] == (1, 7)


def test_temporaries_of_an_inner_loop_live_in_one_of_its_rounds():
    steps = [
        op(0, 1),
        Step("jump", (1,), target=8),
        op(1, 2),
        Step("jump", (1,), target=7),
        op(2, 3),
        op(3, 2),
        Step("jump", target=3, always=True),
        Step("jump", target=1, always=True),
    ]
    found = lives(steps, fixed={0})
    assert found[3] == (4, 6)
    assert found[2] == (2, 7)
    assert found[1] == (0, 8)


DECISIONS = list(itertools.product([False, True], repeat=9))


def storages(program: Programs, outputs=()):
    values = {value for step in program.steps for value in step.uses}
    values |= {value for step in program.steps for value in step.move or ()}
    values |= {*outputs}
    return analyse(program.steps, dict.fromkeys(values, FLOATS), outputs)


@given(st.integers(0, 2**32), st.booleans())
def test_no_read_of_a_random_program_finds_what_was_overwritten(seed, moves):
    program = Programs(seed, moves=moves)
    outputs = [0] if seed % 3 == 0 else []
    found = storages(program, outputs)
    machine = Machine(program.steps, found.owner, place(found.life))
    for decisions in DECISIONS[seed % 7 :: 7]:
        assert machine.run(decisions, outputs) == []


@given(st.integers(0, 2**32))
def test_no_life_is_longer_than_some_run_may_need(seed):
    program = Programs(seed, moves=False)
    found = storages(program)
    for value, life in found.life.items():
        positions = needed(program.steps, value)
        assert life == (min(positions), max(positions) + 1)


def needed(steps, value):
    """Positions that touch a value, or lie on a way from such a one to a read with no write in between."""
    touches = {position for position, step in enumerate(steps) if value in step.uses}
    reads = {position for position in touches if value not in steps[position].writes}
    after = set().union(*(reachable(steps, following(steps, position), set()) for position in touches))
    return touches | {
        position
        for position in after
        if position not in touches and reachable(steps, [position], touches - reads) & reads
    }


def reachable(steps, starts, walls):
    """Positions that can be reached from `starts`; a wall is reached, what lies behind it is not."""
    seen, pending = set(), list(starts)
    while pending:
        position = pending.pop()
        if position < len(steps) and position not in seen:
            seen.add(position)
            pending += [] if position in walls else following(steps, position)
    return seen


def following(steps, position):
    step = steps[position]
    return ([] if step.always else [position + 1]) + ([] if step.target is None else [step.target])


@pytest.mark.parametrize("seed", [3, 14])
def test_the_machine_notices_lives_that_are_too_short(seed):
    program = Programs(seed, moves=False)
    found = storages(program)
    machine = Machine(program.steps, found.owner, dict.fromkeys(found.life, 0))
    assert any(machine.run(decisions) for decisions in DECISIONS)


def test_around_a_stop_everything_that_a_loop_touches_lives_through_all_of_it():
    steps = loop(9, [op(1, 2), op(2, 3), op(3, 1)], [op(1, 4)])
    found = analyse(steps, dict.fromkeys([0, 1, 2, 3, 4, 9], FLOATS), fixed={0}, stops={4}).life
    assert found[2] == found[3] == (1, 7)
    assert found[9] == (1, 7)
    assert found[4] == (7, 8)
