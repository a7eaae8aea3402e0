"""Barriers between dispatches, against a checker that looks at every pair of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from etarena.delegates.vulkan.barriers import Range, barriers_before

ranges = st.builds(
    lambda space, first, count: (space, first, first + count),
    st.sampled_from(["inner", "argument 0"]),
    st.integers(0, 12),
    st.integers(1, 6),
)
steps = st.lists(st.tuples(st.lists(ranges, max_size=3), st.lists(ranges, max_size=2)), max_size=8)


def touched(found: list[Range]) -> set[tuple[str, int]]:
    return {(space, byte) for space, first, end in found for byte in range(first, end)}


def conflict(one: tuple[list[Range], list[Range]], other: tuple[list[Range], list[Range]]) -> bool:
    reads, writes = touched(one[0]), touched(one[1])
    other_reads, other_writes = touched(other[0]), touched(other[1])
    return bool(writes & other_writes or writes & other_reads or reads & other_writes)


def test_a_chain_waits_at_each_step_and_independent_steps_do_not() -> None:
    a, b, c = ("inner", 0, 64), ("inner", 64, 128), ("inner", 128, 192)
    assert barriers_before([([a], [b]), ([b], [c])]) == [False, True]
    assert barriers_before([([a], [b]), ([a], [c])]) == [False, False]
    # What overwrites the input of the step before, because its memory is free again, waits for it.
    assert barriers_before([([a], [b]), ([c], [a])]) == [False, True]
    # The barrier before the second step orders the first for the third too.
    assert barriers_before([([a], [b]), ([b], [c]), ([b], [a])]) == [False, True, False]


def test_parts_of_one_result_do_not_wait_for_each_other() -> None:
    whole, a, b = ("inner", 0, 64), ("argument 0", 0, 16), ("inner", 64, 128)
    pieces = [([a], [whole]), ([b], [whole]), ([a], [whole]), ([whole], [b])]
    assert barriers_before(pieces) == [False, True, True, True]
    assert barriers_before(pieces, [7, 7, 7, None]) == [False, False, False, True]
    assert barriers_before(pieces, [7, 7, 8, None]) == [False, False, True, True]  # another operator's
    # A piece that reads what another one writes waits as ever.
    assert barriers_before([([a], [whole]), ([whole], [whole])], [7, 7]) == [False, True]


@given(steps)
def test_every_conflict_has_a_barrier_between_and_every_barrier_a_conflict(
    accesses: list[tuple[list[Range], list[Range]]],
) -> None:
    found = barriers_before(accesses)
    start = 0
    for step, waits in enumerate(found):
        before = range(start, step)
        assert waits == any(conflict(accesses[other], accesses[step]) for other in before)
        if waits:
            start = step
