"""Results in the place of operands: a simulation of memory finds every number where it was written."""

from hypothesis import given
from hypothesis import strategies as st

from etarena.delegates.vulkan.in_place import share_in_place
from etarena.delegates.vulkan.operators.call import BoundTensor, Dispatch

INPUTS = 2  # tensors 0 and 1; others are made one after another


def dispatch(reads: list[int], write: int, replaceable: list[int]) -> Dispatch:
    tensors = [BoundTensor(number, "float32", (4,)) for number in reads]
    chosen = tuple(tensor for tensor in tensors if tensor.number in replaceable)
    return Dispatch("any", tuple(tensors), (BoundTensor(write, "float32", (4,)),), b"", (1, 1, 1), (), chosen)


def shared(dispatches: list[Dispatch], outputs: set[int]) -> dict[int, int]:
    """What `share_in_place` joins."""
    joined: dict[int, int] = {}

    def root_of(number: int) -> int:
        while number in joined:
            number = joined[number]
        return number

    def join(one: int, other: int) -> None:
        assert one not in joined
        assert root_of(other) == other != one
        joined[one] = other

    share_in_place(dispatches, root_of, lambda n: n >= INPUTS and n not in outputs, outputs, join)
    return {number: root_of(number) for number in range(INPUTS + len(dispatches))}


def test_a_chain_lies_where_its_result_comes() -> None:
    chain = [dispatch([n + 1], n + 2, [n + 1]) for n in range(4)]
    assert shared(chain, {5}) == {0: 0, 1: 1, 2: 5, 3: 5, 4: 5, 5: 5}


def test_what_is_read_later_keeps_its_place() -> None:
    assert shared([dispatch([0], 2, [0]), dispatch([2], 3, [2]), dispatch([2, 3], 4, [])], set())[3] == 3
    # The operand that is not read again gives its place.
    steps = [dispatch([0], 2, []), dispatch([0], 3, []), dispatch([2, 3], 4, [2, 3]), dispatch([2, 4], 5, [])]
    assert shared(steps, set())[4] == 3


def test_what_an_operand_is_read_as_otherwise_keeps_its_place() -> None:
    assert shared([dispatch([0], 2, []), dispatch([2], 3, [])], set()) == {0: 0, 1: 1, 2: 2, 3: 3}


@given(st.data())
def test_every_number_is_read_as_it_was_written(data: st.DataObject) -> None:
    dispatches: list[Dispatch] = []
    for number in range(INPUTS, INPUTS + data.draw(st.integers(1, 8))):
        reads = data.draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3))
        dispatches.append(dispatch(reads, number, data.draw(st.lists(st.sampled_from(reads)))))
    outputs = data.draw(st.sets(st.integers(INPUTS, INPUTS + len(dispatches) - 1)))
    roots = shared(dispatches, outputs)
    assert all(roots[number] == number for number in {0, 1, *outputs})
    memory = {number: number for number in range(INPUTS)}
    for step in dispatches:
        assert all(memory[roots[tensor.number]] == tensor.number for tensor in step.reads)
        memory[roots[step.writes[0].number]] = step.writes[0].number
    assert all(memory[roots[number]] == number for number in outputs)
