"""Programs with XNNPACK that share an arena: whatever is called in whatever order, results stay and memory is reused.

The oracles are eager PyTorch, hand calculation, and for XNNPACK's own bytes the allocator that it is given.
"""

import gc
import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import etarena
from etarena.delegates.xnnpack import scratch

N = torch.export.Dim.DYNAMIC
WIDTH = 16


class Chain(nn.Module):
    """On the CPU's kernels two tensors are live at any time: the operand and the result."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.erf(torch.cumsum(x, 1))
        return x


class Breaks(nn.Module):
    """XNNPACK, a running sum on the CPU, XNNPACK."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.second = nn.Sequential(nn.Linear(WIDTH, 48), nn.ReLU(), nn.Linear(48, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.cumsum(self.first(x), 1))  # type: ignore[no-any-return]


class Told(nn.Module):
    """XNNPACK, a size that data tells, and XNNPACK again, with a tensor that lives from end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.after = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x: Tensor) -> Tensor:
        rows = self.before(x)
        chosen = torch.nonzero(rows.sum(1) > 0)
        common = torch.tanh(rows[chosen]).sum(0)
        return self.after(rows + common * 0.01)  # type: ignore[no-any-return]


STEP = 2 << 20  # an arena commits pages in steps of this many bytes
KINDS: dict[str, type[nn.Module]] = {"chain": Chain, "breaks": Breaks, "told": Told}


@pytest.fixture(scope="module")
def models() -> dict[str, nn.Module]:
    torch.manual_seed(4)
    return {name: kind().eval() for name, kind in KINDS.items()}


@pytest.fixture(scope="module")
def files(models: dict[str, nn.Module], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    example, shapes = (torch.randn(7, WIDTH),), {"x": {0: N}}
    found = {}
    for name, model in models.items():
        exported = etarena.export(model, example, dynamic_shapes=shapes, partitioners=[XnnpackPartitioner()])
        found[name] = tmp_path_factory.mktemp("shared") / f"{name}.pte"
        exported.save(found[name])
    return found


def rows(count: int) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(count))


def check(method: etarena.Method, model: nn.Module, x: Tensor) -> Tensor:
    """Run on garbage and compare with eager PyTorch."""
    method.arena.scribble()
    (result,) = method.execute([x])
    with torch.no_grad():
        torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-4)
    assert method.last_run.scratch_outside_arena == ()
    return result


def test_three_programs_cost_what_the_largest_costs_alone(files: dict[str, Path]) -> None:
    # 16 floats a row; a running sum and what becomes of it: the input and the result outside, two tensors live at a time.
    arena = etarena.Arena(1 << 34)
    methods = [etarena.load(files["chain"], arena).method() for _ in range(3)]
    counts = (20_000, 90_000, 40_000)
    for count, method in itertools.islice(itertools.cycle(zip(counts, methods, strict=True)), 9):
        method.execute([rows(count)])
        assert method.last_run.arena_bytes == 2 * count * WIDTH * 4
    assert arena.stats.activation_committed == -(-2 * max(counts) * WIDTH * 4 // STEP) * STEP


def test_programs_with_scratch_cost_what_the_largest_costs_alone(
    files: dict[str, Path], models: dict[str, nn.Module]
) -> None:
    def committed(arena: etarena.Arena) -> int:
        return arena.stats.activation_committed

    counts = {"chain": 150_000, "breaks": 90_000, "told": 50_000}
    alone = []
    for name, count in counts.items():
        method = etarena.load(files[name], etarena.Arena(1 << 34)).method()
        check(method, models[name], rows(count))
        alone.append(committed(method.arena))
    arena = etarena.Arena(1 << 34)
    shared = {name: etarena.load(files[name], arena).method() for name in counts}
    for name in [*counts, *reversed(counts), *counts]:
        check(shared[name], models[name], rows(counts[name]))
    assert committed(arena) == max(alone)
    assert sum(alone) > 1.5 * max(alone)  # so that taking turns is worth something here


def test_told_sizes_between_delegates_replan_around_what_lives(
    files: dict[str, Path], models: dict[str, nn.Module]
) -> None:
    method = etarena.load(files["told"], etarena.Arena(1 << 34)).method()
    delegates = [delegate.instruction for delegate in method.section.delegates]
    counting = method.section.labels.index("aten::nonzero.out")
    assert min(delegates) < counting < max(delegates)
    kept, model = set(), models["told"]
    for count in (6, 800, 6, 33, 2000, 1):
        for x in (rows(count), torch.zeros(count, WIDTH), rows(count) * 5):
            check(method, model, x)
            assert method.last_run.stages == 2
            with torch.no_grad():
                kept.add(int((model.before(x).sum(1) > 0).sum()))  # type: ignore[operator]
    assert len(kept) > 6


ACTION = st.one_of(
    st.tuples(st.just("run"), st.sampled_from(list(KINDS)), st.sampled_from([0, 1, 5, 40, 333])),
    st.tuples(st.sampled_from(["trim", "reload", "drop"]), st.sampled_from(list(KINDS)), st.just(0)),
    st.tuples(st.just("trim arena"), st.just(""), st.just(0)),
)


@settings(max_examples=25)
@given(steps=st.lists(ACTION, min_size=4, max_size=16))
def test_any_interleaving_gives_the_same_bits(
    files: dict[str, Path], models: dict[str, nn.Module], steps: list[tuple[str, str, int]]
) -> None:
    arena = etarena.Arena(1 << 34)
    programs = {name: etarena.load(files[name], arena) for name in KINDS}
    seen: dict[tuple[str, int], Tensor] = {}
    held: list[tuple[Tensor, Tensor]] = []
    for what, name, count in steps:
        if what == "run":
            result = check(programs[name].method(), models[name], rows(count))
            assert torch.equal(result, seen.setdefault((name, count), result.clone()))
            held.append((result, result.clone()))
        elif what == "trim":
            programs[name].method().trim()
        elif what == "trim arena":
            arena.trim()
        else:
            if what == "drop":
                del programs[name]
                gc.collect()
            programs[name] = etarena.load(files[name], arena)
    for result, copy in held:  # no later run wrote into an earlier one's results
        assert torch.equal(result, copy)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_programs_are_destroyed_in_any_order(
    files: dict[str, Path], models: dict[str, nn.Module], order: tuple[int, ...]
) -> None:
    arena = etarena.Arena(1 << 34)
    names = list(KINDS)
    methods: dict[int, etarena.Method] = {
        at: etarena.load(files[name], arena).method() for at, name in enumerate(names)
    }
    results = [check(methods[at], models[name], rows(50 + at)) for at, name in enumerate(names)]
    copies = [result.clone() for result in results]
    for gone in order:
        del methods[gone]
        gc.collect()
        for at, method in methods.items():
            check(method, models[names[at]], rows(70 + at))
    del arena
    gc.collect()
    assert all(torch.equal(result, copy) for result, copy in zip(results, copies, strict=True))


def test_threads_with_programs_of_their_own_queue_for_one_arena(
    files: dict[str, Path], models: dict[str, nn.Module]
) -> None:
    arena = etarena.Arena(1 << 34)
    failures: list[tuple[str, int]] = []

    def work(name: str, seed: int) -> None:
        method = etarena.load(files[name], arena).method()
        for count in (11 + seed, 300 + seed, 2 + seed, 150, 40 + seed) * 4:
            x = rows(count)
            with torch.no_grad():
                expected = models[name](x)
            if not torch.allclose(method.execute([x])[0], expected, rtol=1e-4, atol=1e-4):
                failures.append((name, count))

    threads = [threading.Thread(target=work, args=(name, seed)) for seed in range(2) for name in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def calls_inside_a_long_one(slow: etarena.Method, quick: etarena.Method) -> int:
    """How many calls of another thread end in the middle half of a long call."""
    large, small, ends = rows(400_000), rows(3), [0]
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            quick.execute([small])
            ends.append(time.perf_counter_ns())

    thread = threading.Thread(target=work)
    thread.start()
    begin = time.perf_counter_ns()
    slow.execute([large])
    end = time.perf_counter_ns()
    done.set()
    thread.join()
    quarter = (end - begin) // 4
    return sum(begin + quarter < moment < end - quarter for moment in ends)


def test_separate_arenas_run_in_parallel_and_one_arena_in_turns(files: dict[str, Path]) -> None:
    quick = etarena.load(files["chain"], etarena.Arena(1 << 34)).method()
    slow = etarena.load(files["chain"], etarena.Arena(1 << 34)).method()
    beside = etarena.load(files["chain"], slow.arena).method()
    # The scheduler may keep any one attempt from showing it, but not all of them.
    assert any(calls_inside_a_long_one(slow, quick) > 0 for _ in range(20))
    assert any(calls_inside_a_long_one(slow, beside) == 0 for _ in range(20))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_memory_stays_flat_over_many_calls_and_loads(files: dict[str, Path]) -> None:
    arena = etarena.Arena(1 << 34)
    programs = {name: etarena.load(files[name], arena, plan_cache=1 << 14) for name in KINDS}
    inputs = [rows(1 + count * 3) for count in range(100)]
    held_before = scratch.held_by_others()[0]
    resident = []
    for turn in range(8):
        for call, x in enumerate(inputs):
            name = list(KINDS)[(call + turn) % 3]
            programs[name].method().execute([x])
            if call % 20 == 0:
                programs[name].method().trim()
            if call % 33 == 0:
                programs[name] = etarena.load(files[name], arena, plan_cache=1 << 14)
        gc.collect()
        resident.append(resident_bytes())
    assert max(resident[3:]) - resident[2] < 1 << 20, resident
    assert scratch.held_by_others() == (held_before, held_before)  # XNNPACK allocated no workspace of its own
    largest = max(method.plan_for([(298, WIDTH)]).peak for method in (p.method() for p in programs.values()))
    assert arena.stats.activation_committed <= largest + STEP


STOCK = """
import sys, torch
from pathlib import Path
from etarena.delegates.xnnpack import scratch
import etarena
from executorch.runtime import Runtime

assert scratch.held_by_others() == (0, 0)
stock = Runtime.get().load_program(Path(sys.argv[1])).load_method("forward")
ours = etarena.load(sys.argv[2]).method()
for count in (40, 100, 7, 93):
    x = torch.randn(count, 16, generator=torch.Generator().manual_seed(count))
    ours.arena.scribble()
    assert torch.equal(stock.execute([x])[0], ours.execute([x])[0]), count
    now, most = scratch.held_by_others()
    print(count, now, most, ours.last_run.delegate_scratch_bytes)
"""


def test_scratch_is_what_stock_xnnpack_allocates_and_results_are_its_bits(
    files: dict[str, Path], models: dict[str, nn.Module], tmp_path: Path
) -> None:
    from executorch.exir import to_edge_transform_and_lower

    shapes = {"x": {0: torch.export.Dim.DYNAMIC(max=100)}}
    program = torch.export.export(models["breaks"], (rows(7),), dynamic_shapes=shapes)
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    (tmp_path / "stock.pte").write_bytes(lowered.buffer)
    command = [sys.executable, "-c", STOCK, str(tmp_path / "stock.pte"), str(files["breaks"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    figures = [tuple(map(int, line.split())) for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert [count for count, *_ in figures] == [40, 100, 7, 93]
    ours = [nbytes for *_, nbytes in figures]
    # Stock's delegates share one workspace, which XNNPACK sizes for the bounds of the export from the first call on.
    assert {now for _, now, *_ in figures} == {ours[1]}
    assert ours[2] < ours[0] < ours[3] < ours[1]  # ours follows the shape
