"""Memory of runs: who owns results, what is copied, what plans are kept, and that nothing leaks."""

import gc
import threading
import weakref
from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.oracle import assert_same

PAGE = 4096


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.layer(x)) * 2, x.sum()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def exported(model):
    return etarena.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))


@pytest.fixture
def program(exported):
    return etarena.load(exported.buffer, etarena.Arena(1 << 32))


class TestResults:
    def test_stay_valid_while_held(self, program, model):
        method = program.method()
        inputs = [torch.randn(n, 4) for n in (3, 50, 1, 3, 700)]
        results = [method.execute([x])[0] for x in inputs]
        program.arena.scribble()
        for x, result in zip(inputs, results, strict=True):
            assert_same(result, model(x)[0])

    def test_outlive_method_program_and_arena(self, exported, model):
        program = etarena.load(exported.buffer, etarena.Arena(1 << 32))
        x = torch.randn(9, 4)
        result = program.method().execute([x])[0]
        view = result[3:]
        gone = weakref.ref(program)
        del program, result
        gc.collect()
        assert gone() is None
        assert_same(view, model(x)[0][3:])

    def test_heap_returns_to_zero_when_dropped(self, program):
        method = program.method()
        held = [method.execute([torch.randn(n, 4)]) for n in range(1, 30)]
        assert program.arena.stats.heap_live >= sum(n * 12 + 4 for n in range(1, 30))
        del held
        gc.collect()
        assert program.arena.stats.heap_live == 0
        assert program.arena.stats.allocations == program.arena.stats.frees

    def test_failed_calls_give_their_memory_back(self, program):
        method = program.method()
        for _ in range(20):
            with pytest.raises(etarena.Error):
                method.execute([torch.randn(2, 5)])
        assert program.arena.stats.heap_live == 0

    def test_dropped_in_another_thread(self, program):
        results = [program.method().execute([torch.randn(40, 4)])]
        thread = threading.Thread(target=results.clear)
        thread.start()
        thread.join()
        assert program.arena.stats.heap_live == 0

    def test_lie_in_the_arena(self, program):
        result = program.method().execute([torch.randn(5, 4)])[0]
        base = program.arena.base
        assert base <= result.data_ptr() < base + program.arena.reserve


class TestCallersMemory:
    def test_inputs_are_read_in_place(self, program):
        program.method().execute([torch.randn(5, 4)])
        assert program.method().last_run.copies == ()

    @pytest.mark.parametrize("kind", ["numpy", "read-only numpy", "memoryview", "dlpack", "requires_grad", "bytearray"])
    def test_array_likes_are_read_in_place(self, program, model, kind):
        x = torch.arange(20.0).reshape(5, 4)
        expected = model(x)
        array = x.numpy().copy()
        if kind == "read-only numpy":
            array.setflags(write=False)
        elif kind == "memoryview":
            array = memoryview(array)
        elif kind == "dlpack":

            class Wrapped:
                def __dlpack__(self, **options):
                    return x.__dlpack__(**options)

                def __dlpack_device__(self):
                    return x.__dlpack_device__()

            array = Wrapped()
        elif kind == "requires_grad":
            array = x.clone().requires_grad_()
        elif kind == "bytearray":
            array = memoryview(bytearray(array.tobytes())).cast("f", (5, 4))
        for actual, other in zip(program.method().execute([array]), expected, strict=True):
            assert_same(actual, other)
        assert program.method().last_run.copies == ()

    def test_strided_inputs_are_copied_and_counted(self, program, model):
        base = torch.randn(5, 8)
        assert_same(program.method().execute([base[:, ::2]])[0], model(base[:, ::2])[0])
        copies = program.method().last_run.copies
        assert [copy.nbytes for copy in copies] == [80]
        assert "input 'x'" in copies[0].cause
        assert program.method().last_run.bytes_copied == 80

    def test_zero_copy_refuses_the_first_copy(self, program, model):
        base = torch.randn(5, 8)
        with etarena.zero_copy():
            with pytest.raises(etarena.CopyRefusedError, match=r"80 bytes.*input 'x'"):
                program.method().execute([base[:, ::2]])
            assert_same(program.method().execute([base[:, :4].contiguous()])[0], model(base[:, :4])[0])

    def test_unaligned_input_is_copied(self, program, model):
        raw = np.zeros(5 * 4 * 4 + 1, dtype=np.uint8)
        x = raw[1:].view(np.float32).reshape(5, 4)
        x[:] = 3.0
        assert_same(program.method().execute([x])[0], model(torch.full((5, 4), 3.0))[0])
        assert program.method().last_run.bytes_copied == 80

    def test_output_goes_into_the_callers_tensor(self, program, model):
        x = torch.randn(6, 4)
        room = torch.full((6, 3), float("nan"))
        results = program.method().execute([x], outputs=[room, None])
        assert results[0] is room
        assert_same(room, model(x)[0])
        assert program.method().last_run.copies == ()

    def test_strided_or_overlapping_output_tensor_is_filled_by_a_counted_copy(self, program, model):
        x = torch.randn(3, 4)
        expected = model(x)
        room = torch.zeros(3, 6)
        program.method().execute([x], outputs=[room[:, ::2], None])
        assert_same(room[:, ::2].contiguous(), expected[0])
        assert not room[:, 1::2].any()
        assert program.method().last_run.bytes_copied == 36
        shared = torch.zeros(3, 8)
        shared[:, :4] = x
        own_input = shared.view(-1)[:12].view(3, 4)
        own_input.copy_(x)
        program.method().execute([own_input], outputs=[shared.view(-1)[6:15].view(3, 3), None])
        assert_same(shared.view(-1)[6:15].view(3, 3), expected[0])

    @pytest.mark.parametrize(
        ("outputs", "message"),
        [
            ([torch.zeros(5, 3)], "list of 2"),
            ([torch.zeros(5, 4), None], "shape"),
            ([torch.zeros(5, 3, dtype=torch.float64), None], "dtype"),
            ([np.zeros((5, 3), np.float32), None], "torch.Tensor"),
            ("ab", "list of 2"),
        ],
    )
    def test_wrong_output_tensors(self, program, model, outputs, message):
        x = torch.randn(5, 4)
        with pytest.raises(etarena.Error, match=message):
            program.method().execute([x], outputs=outputs)
        assert_same(program.method().execute([x])[0], model(x)[0])

    def test_inputs_are_not_kept(self, program):
        x = torch.randn(5, 4)
        gone = weakref.ref(x)
        program.method().execute([x])
        del x
        gc.collect()
        assert gone() is None


class TestPlans:
    def test_repeated_shape_uses_its_plan(self, program):
        method = program.method()
        method.execute([torch.randn(5, 4)])
        assert not method.last_run.plan_cached
        assert method.last_run.plan_ns > 0
        for n in (5, 6, 5):
            method.execute([torch.randn(n, 4)])
        assert method.last_run.plan_cached
        assert method.last_run.plan_ns == 0
        assert method.cached_plans == 2

    def test_binding_is_counted_where_places_change(self, exported):
        method = etarena.load(exported.buffer, etarena.Arena(1 << 20)).method()
        method.execute([torch.randn(5, 4)])
        assert method.last_run.bind_ns > 0
        method.execute([torch.randn(5, 4)])
        assert method.last_run.bind_ns == 0
        with pytest.raises(etarena.ShapeError):
            method.execute([torch.randn(5, 3)])
        with pytest.raises(etarena.ArenaFullError):
            method.execute([torch.randn(1 << 16, 4)])
        assert (method.last_run.bind_ns, method.last_run.plan_cached) == (0, True)

    def test_nothing_is_told_where_nothing_can_be(self, program):
        method = program.method()
        assert method.plan_for([(5, 4)], told={}) == replace(method.plan_for([(5, 4)]), plan_ns=ANY)
        with pytest.raises(etarena.InputError, match="there are none"):
            method.plan_for([(5, 4)], told={"s0": 1})

    def test_a_cache_of_no_bytes_keeps_the_plan_in_use_alone(self, exported, model):
        method = etarena.load(exported.buffer, etarena.Arena(1 << 32), plan_cache=0).method()
        for n in (5, 6, 5):
            x = torch.randn(n, 4)
            assert_same(method.execute([x])[0], model(x)[0])
            assert not method.last_run.plan_cached
            method.execute([x])
            assert method.last_run.plan_cached
        assert method.cached_plans == 0

    def test_cache_is_bounded_by_bytes(self, exported):
        method = etarena.load(exported.buffer, etarena.Arena(1 << 32), plan_cache=4000).method()
        for n in range(1, 200):
            method.execute([torch.ones(n, 4)])
        assert 1 <= method.cached_plans < 20

    def test_plan_for_matches_the_run(self, program):
        method = program.method()
        plan = method.plan_for([(77, 4)])
        method.execute([torch.ones(77, 4)])
        assert (plan.peak, plan.lower_bound) == (method.last_run.arena_bytes, method.last_run.lower_bound_bytes)
        assert plan.output_bytes == method.last_run.output_bytes == 77 * 3 * 4 + 4
        # weight transposed (4x3 floats) and the layer's result are live together before relu
        assert plan.lower_bound >= 77 * 3 * 4
        assert {buffer.shape for buffer in plan.buffers} >= {(77, 3)}

    def test_trim_gives_pages_back_and_keeps_working(self, program, model):
        method = program.method()
        method.execute([torch.ones(1 << 18, 4)])
        grown = program.arena.stats.activation_committed
        method.trim()
        assert program.arena.stats.activation_committed < grown
        assert method.cached_plans == 0
        x = torch.randn(3, 4)
        assert_same(method.execute([x])[0], model(x)[0])

    def test_arena_grows_with_the_largest_input_only(self, program):
        method = program.method()
        for n in (10, 100_000, 10, 1000):
            method.execute([torch.ones(n, 4)])
        largest = method.plan_for([(100_000, 4)]).peak
        assert largest <= program.arena.stats.activation_committed <= largest + (4 << 20)


class TestSharing:
    def test_threads_queue_for_the_arena(self, program, model):
        method = program.method()
        inputs = [torch.randn(n, 4) for n in range(1, 40)]
        expected = [model(x)[0].detach() for x in inputs]
        wrong: list[int] = []

        def work(offset: int) -> None:
            for position in range(200):
                index = (position + offset) % len(inputs)
                if not torch.allclose(method.execute([inputs[index]])[0], expected[index], atol=1e-5):
                    wrong.append(index)

        threads = [threading.Thread(target=work, args=(offset,)) for offset in (0, 7, 19)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_programs_share_the_activation_region(self, exported, model):
        arena = etarena.Arena(1 << 32)
        methods = [etarena.load(exported.buffer, arena).method() for _ in range(3)]
        x = torch.randn(50_000, 4)
        for method in methods:
            assert_same(method.execute([x])[0], model(x)[0])
        assert arena.stats.activation_committed <= methods[0].last_run.arena_bytes + (4 << 20)

    def test_arena_too_small_says_what_to_change(self, exported, model):
        method = etarena.load(exported.buffer, etarena.Arena(1 << 22)).method()
        with pytest.raises(etarena.ArenaFullError, match="reserve"):
            method.execute([torch.ones(1 << 20, 4)])
        x = torch.randn(3, 4)
        assert_same(method.execute([x])[0], model(x)[0])


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def test_memory_stays_flat_over_many_shapes(program):
    method = program.method()

    def round_of_calls() -> None:
        for n in range(1, 500):
            method.execute([torch.ones(n, 4)])

    round_of_calls()
    gc.collect()
    before = resident_bytes()
    for _ in range(6):
        round_of_calls()
    gc.collect()
    assert resident_bytes() - before < (1 << 20)


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("value", torch.zeros(2, 2))


class Set(State):
    def forward(self, x):
        self.value.copy_(x)
        return x + 0


class Get(State):
    def forward(self):
        return self.value + 0


class Forward(State):
    def forward(self, x):
        self.value.add_(1)
        return self.value + 6 * x


@pytest.fixture(scope="module")
def stateful():
    ones = torch.ones(2, 2)
    return etarena.export({"set": (Set(), (ones,)), "get": (Get(), ()), "forward": (Forward(), (ones,))})


class TestSeveralMethods:
    def test_share_a_buffer(self, stateful):
        program = etarena.load(stateful.buffer, etarena.Arena(1 << 30))
        program.method("set").execute([torch.full((2, 2), 5.0)])
        assert program.method("get").execute([])[0].tolist() == [[5.0, 5.0], [5.0, 5.0]]
        assert program.method("forward").execute([torch.ones(2, 2)])[0].tolist() == [[12.0, 12.0], [12.0, 12.0]]
        assert program.method("get").execute([])[0].tolist() == [[6.0, 6.0], [6.0, 6.0]]

    def test_are_listed_and_named(self, stateful):
        program = etarena.load(stateful.buffer)
        assert sorted(program.method_names) == ["forward", "get", "set"]
        with pytest.raises(etarena.InputError, match="'set' takes 1 inputs"):
            program.method("set").execute([])
