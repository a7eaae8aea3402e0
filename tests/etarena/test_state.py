"""State of a program: read, written, reset, saved and restored, unchanged by calls that fail, shared by methods."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.oracle import load_exported


class Counter(nn.Module):
    """Two fixed states of which the second is computed from the first."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.total.add_(x.sum(0))
        self.count.add_(1)
        return self.total + self.total


class Read(Counter):
    def forward(self):
        return self.total.clone(), self.count.clone()


@pytest.fixture(scope="module")
def exported():
    rows = Dim("rows")
    return etarena.export(
        {"add": (Counter(), (torch.ones(2, 3),), None, {"x": {0: rows}}), "read": (Read(), ())},
    )


@pytest.fixture
def program(exported):
    return etarena.load(exported.buffer, etarena.Arena(1 << 32))


def contents(program):
    return {name: state.tensor() for name, state in program.state.items()}


def assert_states(program, total, count):
    assert program.state["total"].tensor().tolist() == total
    assert program.state["count"].tensor().tolist() == count


class TestReading:
    def test_start_values(self, program):
        assert list(program.state) == ["total", "count"]
        assert_states(program, [1.0, 2.0, 3.0], [0])
        assert program.state["total"].shape == (3,)
        assert program.state["total"].dtype == torch.float32
        assert program.state["count"].nbytes == 8
        assert program.state.nbytes == 20

    def test_an_array_shows_the_memory_itself_and_cannot_be_written(self, program):
        view = program.state["total"].numpy()
        program.method("add").execute([torch.ones(4, 3)])
        assert view.tolist() == [5.0, 6.0, 7.0]
        assert view.ctypes.data == program.state["total"].address
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1

    def test_a_tensor_is_a_copy(self, program):
        before = program.state["total"].tensor()
        program.method("add").execute([torch.ones(4, 3)])
        assert before.tolist() == [1.0, 2.0, 3.0]

    def test_methods_share_it(self, program):
        program.method("add").execute([torch.ones(1, 3)])
        total, count = program.method("read").execute([])
        assert (total.tolist(), count.tolist()) == ([2.0, 3.0, 4.0], [1])
        assert program.method("read").state["total"] is program.method("add").state["total"]

    def test_an_unknown_name_lists_those_there_are(self, program):
        with pytest.raises(KeyError, match="no state 'sum'; there are total, count"):
            program.state["sum"]

    def test_an_array_outlives_the_program(self, exported):
        program = etarena.load(exported.buffer, etarena.Arena(1 << 30))
        view = program.state["total"].numpy()
        del program
        assert view.tolist() == [1.0, 2.0, 3.0]

    def test_rewinding_the_arena_cannot_take_it_away(self, exported):
        arena = etarena.Arena(1 << 30)
        program = etarena.load(exported.buffer, arena)
        mark = arena.mark()
        assert program.method("add").execute([torch.ones(1, 3)])[0].tolist() == [4.0, 6.0, 8.0]
        with pytest.raises(BufferError, match="still uses"):
            arena.rewind(mark)
        assert_states(program, [2.0, 3.0, 4.0], [1])


class TestWriting:
    def test_write_and_reset(self, program):
        program.state["total"].write(torch.tensor([7.0, 8.0, 9.0]))
        assert program.method("read").execute([])[0].tolist() == [7.0, 8.0, 9.0]
        program.state["total"].write(np.float32([[1, 2, 3], [4, 5, 6]])[1])
        assert_states(program, [4.0, 5.0, 6.0], [0])
        program.method("add").execute([torch.ones(1, 3)])
        program.reset()
        assert_states(program, [1.0, 2.0, 3.0], [0])

    @pytest.mark.parametrize(
        ("value", "error", "words"),
        [
            (
                torch.zeros(3, dtype=torch.float64),
                etarena.InputTypeError,
                "'total' is float32, the value torch.float64",
            ),
            (torch.zeros(4), etarena.InputError, r"'total' has shape \[3\], the value \[4\]"),
            (torch.zeros(3, 1), etarena.InputError, r"the value \[3, 1\]"),
            (torch.tensor(1.0), etarena.InputError, r"the value \[\]"),
            ("text", etarena.InputTypeError, "expected a tensor"),
            (None, etarena.InputTypeError, "expected a tensor"),
        ],
    )
    def test_what_does_not_fit(self, program, value, error, words):
        with pytest.raises(error, match=words):
            program.state["total"].write(value)
        assert_states(program, [1.0, 2.0, 3.0], [0])

    def test_several_at_once_or_none(self, program):
        with pytest.raises(etarena.InputTypeError, match="'count'"):
            program.state.write({"total": torch.zeros(3), "count": torch.zeros(1)})
        assert_states(program, [1.0, 2.0, 3.0], [0])
        program.state.write({"total": torch.zeros(3), "count": torch.tensor([9])})
        assert_states(program, [0.0, 0.0, 0.0], [9])


class TestFiles:
    def test_round_trip(self, program, exported, tmp_path):
        program.method("add").execute([torch.ones(2, 3)])
        program.state.save(tmp_path / "states")
        program.reset()
        other = etarena.load(exported.buffer, etarena.Arena(1 << 30))
        for restored in (program, other):
            restored.state.load(tmp_path / "states")
            assert_states(restored, [3.0, 4.0, 5.0], [1])

    def test_damaged_files(self, program, tmp_path):
        path = tmp_path / "states"
        program.method("add").execute([torch.ones(2, 3)])
        program.state.save(path)
        whole = path.read_bytes()
        generator = np.random.default_rng(1)
        damaged = [b"", b"x", whole[:-1], whole[: len(whole) // 2], b"\xff" * 8 + whole[8:], whole + b"x"]
        for _ in range(60):
            data = bytearray(whole)
            data[generator.integers(0, 40)] ^= int(generator.integers(1, 256))
            damaged.append(bytes(data))
        before = contents(program)
        refused = 0
        for data in damaged:
            path.write_bytes(data)
            try:
                program.state.load(path)
            except (etarena.InputError, etarena.InputTypeError):
                refused += 1
                assert all(torch.equal(now, before[name]) for name, now in contents(program).items())
        assert refused >= 50
        with pytest.raises(FileNotFoundError):
            program.state.load(tmp_path / "nothing")

    def test_the_file_of_another_program(self, program, tmp_path):
        other = load_exported(Accumulate(), (torch.ones(2),))
        other.state.save(tmp_path / "states")
        with pytest.raises(etarena.InputError, match="no state 'total'"):
            program.state.load(tmp_path / "states")
        assert_states(program, [1.0, 2.0, 3.0], [0])


class Accumulate(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(2))

    def forward(self, x):
        self.sum.add_(x)
        return self.sum + 0


class Swap(nn.Module):
    """Each state becomes what the other was."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.tensor([1.0, 2.0]))
        self.register_buffer("b", torch.tensor([3.0, 4.0]))

    def forward(self, x):
        a = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(a)
        return x + 0


class OnlyWrites(Accumulate):
    def forward(self, x):
        self.sum.copy_(x)


class TakesInput(nn.Module):
    """A state becomes the input, which becomes something else."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2))

    def forward(self, x):
        self.kept.copy_(x)
        x.mul_(2)
        return x + 1


class TestNewValues:
    def test_two_states_that_change_places(self):
        program = load_exported(Swap(), (torch.ones(1),))
        for expected in ([3.0, 4.0], [1.0, 2.0]):
            program.method().execute([torch.ones(1)])
            assert program.state["a"].tensor().tolist() == expected
            assert program.state["b"].tensor().tolist() == ([1.0, 2.0] if expected == [3.0, 4.0] else [3.0, 4.0])

    def test_a_state_that_becomes_an_input_which_the_method_writes(self):
        program = load_exported(TakesInput(), (torch.ones(2),))
        x = torch.tensor([3.0, 5.0])
        assert program.method().execute([x])[0].tolist() == [7.0, 11.0]
        assert x.tolist() == [6.0, 10.0]
        assert program.state["kept"].tensor().tolist() == [3.0, 5.0]

    def test_a_method_that_does_nothing_else(self):
        program = load_exported(OnlyWrites(), (torch.ones(2),))
        assert program.method().execute([torch.tensor([4.0, 5.0])]) == [None]
        assert program.state["sum"].tensor().tolist() == [4.0, 5.0]


class FailsLate(nn.Module):
    """Both states and the input have new values before the last operator gets an index out of range."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.zeros(2))
        self.register_buffer("second", torch.zeros(2))
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x, index):
        self.first.add_(1)
        self.second.add_(x)
        x.add_(1)
        return torch.index_select(self.table, 0, index)


class TestFailingCalls:
    def test_nothing_changes_when_an_operator_fails(self):
        program = load_exported(FailsLate(), (torch.ones(2), torch.tensor([0])))
        method = program.method()
        x = torch.ones(2)
        method.execute([x, torch.tensor([3])])
        for _ in range(3):
            with pytest.raises(etarena.RuntimeFailure):
                method.execute([x, torch.tensor([9])])
            assert program.state["first"].tensor().tolist() == [1.0, 1.0]
            assert program.state["second"].tensor().tolist() == [1.0, 1.0]
            assert x.tolist() == [2.0, 2.0]
        method.execute([x, torch.tensor([0])])
        assert program.state["second"].tensor().tolist() == [3.0, 3.0]

    def test_nothing_changes_when_the_results_cannot_be_handed_out(self):
        program = load_exported(FailsLate(), (torch.ones(2), torch.tensor([0])))
        x = torch.ones(2)
        given = torch.empty(2)[::2]  # another layout than the result's: needs a copy
        with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError):
            program.method().execute([torch.ones(4)[::2], torch.tensor([0])])
        with pytest.raises(etarena.InputError):
            program.method().execute([x, torch.tensor([0])], outputs=[torch.empty(3)])
        assert program.state["first"].tensor().tolist() == [0.0, 0.0]
        program.method().execute([x, torch.tensor([2])], outputs=[given])
        assert given.tolist() == [2.0]
        assert program.state["first"].tensor().tolist() == [1.0, 1.0]


def test_reading_and_writing_beside_running_calls(program):
    """Every state is read as one call left it: the three totals always differ by one."""
    method, errors = program.method("add"), []

    def call():
        for _ in range(200):
            method.execute([torch.ones(1, 3)])

    def read():
        for _ in range(200):
            total = program.state["total"].tensor()
            if (total[1:] - total[:-1]).tolist() != [1.0, 1.0]:
                errors.append(total)

    threads = [threading.Thread(target=work) for work in (call, read, call, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert program.state["count"].tensor().tolist() == [400]
