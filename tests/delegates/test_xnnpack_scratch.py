"""XNNPACK's scratch as buffers of the plan."""

import gc
import itertools
import subprocess
import sys
import threading

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

import etarena
from etarena.quiet import quiet

N = torch.export.Dim.DYNAMIC


class Breaks(torch.nn.Module):
    """Four times a convolution on XNNPACK, then a running sum that stays on the CPU."""

    def __init__(self):
        super().__init__()
        self.convolutions = torch.nn.ModuleList(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))

    def forward(self, x):
        for convolution in self.convolutions:
            x = torch.cumsum(torch.relu(convolution(torch.relu(convolution(x)))), -1) * 0.01
        return x


class Selected(torch.nn.Module):
    """Two delegates with a size between them that data tells."""

    def __init__(self):
        super().__init__()
        self.before = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
        self.after = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))

    def forward(self, x):
        x = self.before(x)
        return self.after(x[x.sum(1) > 0])


class Gate(torch.nn.Module):
    """Products that may lie where the gate does, or may not: only an image of one pixel is as large as its gate."""

    def forward(self, x, gate):
        for _ in range(3):
            x = torch.sigmoid(torch.sigmoid(gate + gate) * torch.relu(x + x)) + x
        return x


@pytest.fixture(scope="module")
def breaks():
    torch.manual_seed(0)
    return Breaks().eval()


@pytest.fixture(scope="module")
def exported(breaks):
    return etarena.export(
        breaks, (torch.randn(1, 8, 32, 48),), dynamic_shapes={"x": {2: N, 3: N}}, partitioners=[XnnpackPartitioner()]
    )


def load(exported, **options):
    return etarena.load(exported.buffer, etarena.Arena(1 << 34), **options).method()


def assert_equal(method, model, x):
    method.arena.scribble()
    with torch.no_grad():
        expected = model(x)
    (result,) = method.execute([x])
    assert result.shape == expected.shape
    assert torch.allclose(
        result, expected, rtol=1e-4, atol=1e-5 * max(float(expected.abs().max()), 1) if len(expected) else 0
    )
    return result


def test_scratch_follows_the_shape(breaks, exported):
    method = load(exported)
    figures = {}
    for height, width in [(32, 48), (256, 256), (7, 9), (64, 64), (256, 256), (7, 9), (32, 48)]:
        assert_equal(method, breaks, torch.randn(1, 8, height, width))
        run = method.last_run
        assert run.scratch_outside_arena == ()
        assert run.lower_bound_bytes <= run.arena_bytes <= 1.05 * run.lower_bound_bytes
        # XNNPACK keeps the image between two convolutions.
        assert run.delegate_scratch_bytes >= 8 * height * width * 4
        figures.setdefault((height, width), set()).add((run.arena_bytes, run.delegate_scratch_bytes))
    assert all(len(found) == 1 for found in figures.values())
    assert max(figures[7, 9]) < min(figures[32, 48]) < min(figures[256, 256])


def test_scratch_is_right_where_the_shape_decides_what_shares_memory():
    gate = torch.randn(1, 8, 1, 1)
    exported = etarena.export(
        Gate(),
        (torch.randn(1, 8, 6, 5), gate),
        dynamic_shapes={"x": {2: N, 3: N}, "gate": None},
        partitioners=[XnnpackPartitioner()],
    )
    for shapes in itertools.permutations([(20, 30), (1, 1), (64, 3)]):
        method = load(exported, plan_cache=0)
        assert [delegate.id for delegate in method.section.delegates] == ["XnnpackBackend"]
        for height, width in (*shapes, *shapes):
            x = torch.randn(1, 8, height, width)
            method.arena.scribble()
            (result,) = method.execute([x, gate])
            assert torch.allclose(result, Gate()(x, gate), rtol=1e-4, atol=1e-5)
            assert method.last_run.scratch_outside_arena == ()
            # An image inside the delegate at least, which the product of two takes over.
            assert method.last_run.delegate_scratch_bytes >= 8 * height * width * 4


def test_scratch_is_in_the_plan_for_its_call_alone(exported):
    method = load(exported)
    plan = method.plan_for([(1, 8, 64, 64)])
    scratch = [buffer for buffer in plan.buffers if buffer.kind == "scratch"]
    assert len(scratch) == sum(delegate.id == "XnnpackBackend" for delegate in method.section.delegates)
    assert all(buffer.last == buffer.first + 1 and buffer.delegate == "XnnpackBackend" for buffer in scratch)
    assert all(buffer.delegate == "" for buffer in plan.buffers if buffer.kind == "activation")
    assert plan.scratch_bytes == max(buffer.nbytes for buffer in scratch)
    assert sum(buffer.nbytes >= 8 * 64 * 64 * 4 for buffer in scratch) == 4  # each pair of convolutions keeps an image
    live = [
        sum(buffer.nbytes for buffer in plan.buffers if buffer.first <= at < buffer.last)
        for at in range(len(plan.instructions))
    ]
    assert plan.lower_bound == max(live)


def test_results_are_those_of_the_stock_backend(breaks, exported):
    x = torch.randn(1, 8, 40, 56)
    with quiet():
        from executorch.exir import to_edge_transform_and_lower
        from executorch.runtime import Runtime

        static = to_edge_transform_and_lower(torch.export.export(breaks, (x,)), partitioner=[XnnpackPartitioner()])
        buffer = static.to_executorch().buffer  # the stock runtime reads it as long as it runs
        program = Runtime.get().load_program(buffer)
        stock = program.load_method("forward")
    ours = load(exported).execute([x])[0]
    assert torch.equal(ours, stock.execute([x])[0])


def test_sizes_told_by_data_between_delegates():
    torch.manual_seed(1)
    model = Selected().eval()
    exported = etarena.export(
        model, (torch.randn(6, 16),), dynamic_shapes={"x": {0: N}}, partitioners=[XnnpackPartitioner()]
    )
    method = load(exported)
    for rows in (6, 500, 40, 500, 3):
        x = torch.randn(rows, 16)
        assert_equal(method, model, x)
        assert method.last_run.stages == 2
        assert method.last_run.scratch_outside_arena == ()


def test_programs_come_and_go_in_any_order(breaks, exported):
    arena = etarena.Arena(1 << 34)
    methods = [etarena.load(exported.buffer, arena).method() for _ in range(3)]
    peaks = []
    for turn, size in enumerate([64, 16, 128, 40, 96, 8]):
        method = methods[turn % len(methods)]
        assert_equal(method, breaks, torch.randn(1, 8, size, size))
        peaks.append(method.last_run.arena_bytes)
        if turn == 2:
            method.trim()
        if turn == 3:
            del methods[1], method
            gc.collect()
    assert arena.stats.activation_committed <= max(peaks) * 1.02 + (1 << 16)


def test_separate_arenas_run_side_by_side(breaks, exported):
    failures = []

    def work(seed):
        method = load(exported)
        generator = torch.Generator().manual_seed(seed)
        for size in (16, 48, 24, 64, 20):
            x = torch.randn(1, 8, size, size + seed, generator=generator)
            with torch.no_grad():
                expected = breaks(x)
            method.arena.scribble()
            if not torch.allclose(method.execute([x])[0], expected, rtol=1e-4, atol=1e-4):
                failures.append((seed, size))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


AFTER_STOCK = """
import executorch.runtime, sys, torch, warnings
import etarena
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    methods = [etarena.load(sys.argv[1], etarena.Arena(1 << 34)).method() for _ in range(2)]
print(sum("Import etarena first" in str(warning.message) for warning in caught))
x = torch.arange(8 * 20 * 24, dtype=torch.float32).reshape(1, 8, 20, 24) / 4000
for method in methods:
    method.arena.scribble()
    print(float(method.execute([x])[0].double().sum()), method.last_run.scratch_outside_arena)
"""


def test_stock_runtime_imported_first(breaks, exported, tmp_path):
    path = tmp_path / "breaks.pte"
    exported.save(path)
    done = subprocess.run([sys.executable, "-c", AFTER_STOCK, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    warned, *runs = done.stdout.split("\n")[-4:-1]
    x = torch.arange(8 * 20 * 24, dtype=torch.float32).reshape(1, 8, 20, 24) / 4000
    with torch.no_grad():
        expected = float(breaks(x).double().sum())
    assert warned == "1"
    for line in runs:
        total, outside = line.split(" ", 1)
        assert float(total) == pytest.approx(expected, rel=1e-4)
        assert outside == "('XnnpackBackend',)"
