"""Delegates written in Python: values, planned scratch, stages, stock files, threads."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec

import etarena
from etarena.quiet import quiet

from ..helpers.backends import SINE, Interleaved, OperatorPartitioner, TorchDelegate

N = torch.export.Dim.DYNAMIC
BACKEND = "SineOfTheTests"


class Halves(TorchDelegate):
    """Computes in its scratch, which it fills whole."""

    seen: list[Any] = []

    def scratch_bytes(self, shapes):
        return 2 * 4 * int(np.prod(shapes[0]))

    def output_shapes(self, shapes):
        return [shapes[0]]

    def execute(self, args, scratch):
        room = np.frombuffer(scratch, np.float32)
        x = np.asarray(args[0])
        assert room.size == 2 * x.size
        room[: x.size] = x.ravel()
        room[x.size :] = -1
        np.asarray(args[1])[...] = np.sin(room[: x.size]).reshape(x.shape)
        Halves.seen.append((dict(self.specs), len(args)))


class Selected(torch.nn.Module):
    """Delegates before and after a size that data tells."""

    def forward(self, x):
        x = torch.sin(x)
        return torch.sin(x[x.sum(1) > 0])


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    etarena.register_delegate(BACKEND, Halves)
    yield
    etarena.unregister_delegate(BACKEND)


def exported(model=None, *, rows=N):
    model = model or Interleaved()
    partitioner = OperatorPartitioner(BACKEND, SINE, [CompileSpec("level", b"\x07")])
    return etarena.export(model, (torch.randn(6, 50),), dynamic_shapes={"x": {0: rows}}, partitioners=[partitioner])


@pytest.fixture(scope="module")
def program():
    return exported().buffer


@pytest.fixture(scope="module")
def stock():
    """The same model as a stock file, planned ahead of time for up to 64 rows."""
    with quiet():
        rows = torch.export.Dim("rows", min=1, max=64)
        captured = torch.export.export(Interleaved(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: rows}})
        lowered = to_edge_transform_and_lower(captured, partitioner=[OperatorPartitioner(BACKEND, SINE)])
        return lowered.to_executorch().buffer


def assert_right(method, x, model=None):
    method.arena.scribble()
    (result,) = method.execute([x])
    torch.testing.assert_close(result, (model or Interleaved())(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"poison": True}, {"guard": True}, {"poison": True, "guard": True}])
def test_values_at_every_size(program, options):
    method = etarena.load(program, etarena.Arena(1 << 32, **options)).method()
    for rows in (6, 1, 200, 6, 33):
        assert_right(method, torch.randn(rows, 50))
        assert method.last_run.scratch_outside_arena == ()


def test_specs_and_arguments_arrive(program):
    Halves.seen.clear()
    assert_right(etarena.load(program).method(), torch.randn(2, 50))
    assert Halves.seen == [({"level": b"\x07"}, 2)] * 3


def test_scratch_is_planned_and_overlaps(program):
    method = etarena.load(program, etarena.Arena(1 << 32)).method()
    for rows in (16, 512, 32):
        assert_right(method, torch.randn(rows, 50))
        tensor = rows * 50 * 4
        run = method.last_run
        assert run.delegate_scratch_bytes == 2 * tensor
        # At the second sine its input, its output and its scratch live at once; rows * 200 is a multiple of 64 here.
        assert run.arena_bytes == run.lower_bound_bytes == 4 * tensor
    plan = method.plan_for([(16, 50)])
    scratch = [buffer for buffer in plan.buffers if buffer.name.startswith("scratch")]
    assert [buffer.nbytes for buffer in scratch] == [2 * 16 * 50 * 4] * 3
    assert all(buffer.last == buffer.first + 1 for buffer in scratch)


def test_sizes_told_by_data():
    method = etarena.load(exported(Selected()).buffer, etarena.Arena(1 << 32)).method()
    for rows in (6, 500, 40, 500, 3):
        assert_right(method, torch.randn(rows, 50), Selected())
        assert method.last_run.stages == 2
        assert method.last_run.scratch_outside_arena == ()


def test_stock_files_run_in_our_runtime(stock):
    method = etarena.load(stock, etarena.Arena(1 << 32)).method()
    for rows in (6, 64, 1):
        assert_right(method, torch.randn(rows, 50))
        assert method.last_run.scratch_outside_arena == (BACKEND,)


def test_stock_files_run_in_the_stock_runtime(stock):
    with quiet():
        from executorch.runtime import Runtime

    method = Runtime.get().load_program(stock).load_method("forward")
    for rows in (6, 64, 1):
        x = torch.randn(rows, 50)
        torch.testing.assert_close(method.execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)


def test_methods_share_an_arena_and_threads_have_their_own(program, stock):
    shared = etarena.Arena(1 << 32)
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        own = etarena.Arena(1 << 32)
        methods = [etarena.load(file, arena).method() for file in (program, stock) for arena in (shared, own)]
        for turn in range(24):
            x = torch.randn(1 + (7 * turn + seed) % 60, 50, generator=generator)
            try:
                (result,) = methods[turn % 4].execute([x])
                torch.testing.assert_close(result, Interleaved()(x), rtol=1e-4, atol=1e-4)
                if turn % 9 == 8:
                    methods[turn % 4].trim()
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_memory_stays_flat(program):
    method = etarena.load(program, etarena.Arena(1 << 32)).method()
    committed = set()
    for turn in range(300):
        method.execute([torch.zeros(1 + turn % 7, 50)])
        if turn >= 7:
            committed.add(method.arena.stats.activation_committed)
    assert len(committed) == 1
    assert len(method.plan_for([(1, 50)]).buffers) == 11


def test_a_blob_outlives_the_program_while_it_is_viewed(program):
    kept = []

    class Keeps(Halves):
        def init(self, blob, specs):
            super().init(blob, specs)
            kept.append((blob, bytes(blob)))

    etarena.unregister_delegate(BACKEND)
    etarena.register_delegate(BACKEND, Keeps)
    method = etarena.load(bytearray(program)).method()
    method.execute([torch.zeros(2, 50)])
    del method
    assert len(kept) == 3
    for blob, copy in kept:
        assert blob.readonly
        assert bytes(blob) == copy
