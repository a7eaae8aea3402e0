"""Static files on the stock runtime: equal to eager whichever way is taken, and found sound by the verifier alone."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from torch import nn
from torch.export import Dim, export

import etarena
from etarena.allocator.errors import ExportError, InputError
from etarena.quiet import quiet
from etarena.static import find_faults, verify

from ...helpers.control_flow import map_rows
from ...helpers.static_models import Convolved, models

MODELS = models()
BRANCHING = ("consecutive", "passed_through")


def stock_runtime(buffer):
    """The methods of a file on the runtime that comes with ExecuTorch."""
    with quiet():
        from executorch.runtime import Runtime

        program = Runtime.get().load_program(buffer)
    loaded = {name: program.load_method(name) for name in program.method_names}
    return lambda name, *args: [result.clone() for result in loaded[name].execute(list(args))]


@pytest.fixture(scope="module")
def edge():
    """Branches, and a method without, lowered as ExecuTorch lowers them."""
    names = (*BRANCHING, "convolved")
    return to_edge_transform_and_lower({name: export(MODELS[name][0], (MODELS[name][1][0],)) for name in names})


def planned(edge, planning):
    return copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))


def leaves(results):
    return torch.utils._pytree.tree_leaves(results)


@pytest.fixture(scope="module")
def static():
    return etarena.export({name: (model, (inputs[0],)) for name, (model, inputs) in MODELS.items()}, memory="static")


@pytest.fixture(scope="module")
def run(static):
    return stock_runtime(static.buffer)


@pytest.fixture(scope="module")
def planned_by_us(edge):
    return planned(edge, etarena.static_planning_pass())


@pytest.fixture(scope="module")
def planned_by_stock(edge):
    return planned(edge, MemoryPlanningPass())


@pytest.mark.parametrize("name", MODELS)
def test_static_files_give_what_eager_gives(name, run, static):
    model, inputs = MODELS[name]
    for _ in range(2):
        for x in inputs:
            torch.testing.assert_close(run(name, x.clone()), leaves(model(x.clone())))
    plan = static.plan(name)
    assert plan.peak == plan.lower_bound == sum(pool.nbytes for pool in plan.pools)


def test_the_pass_is_right_in_a_stock_export(planned_by_us):
    run = stock_runtime(planned_by_us.buffer)
    for name in BRANCHING:
        model, inputs = MODELS[name]
        for x in (*inputs, *inputs):
            torch.testing.assert_close(run(name, x), leaves(model(x)))
    a, b, c = (result.tolist() for result in run("consecutive", torch.tensor([1.0, 2.0, 3.0]))[:3])
    assert (a, b, c) == ([12, 23, 34], [2, 3, 4], [10, 20, 30])  # as reported, where stock gave others
    verify(planned_by_us.buffer)


def test_the_verifier_finds_what_stock_plans_wrongly(planned_by_stock, planned_by_us):
    faulty = {fault.method for fault in find_faults(planned_by_stock.buffer)}
    assert faulty == set(BRANCHING)  # and nothing in the method whose plan is right
    sizes = [
        {plan.name: sum(plan.non_const_buffer_sizes) for plan in manager.executorch_program.execution_plan}
        for manager in (planned_by_us, planned_by_stock)
    ]
    assert all(sizes[0][name] < sizes[1][name] for name in BRANCHING)


def test_a_static_file_has_no_trace_of_etarena(static):
    assert b"etarena" not in static.buffer.lower()


def test_a_file_is_saved_and_described(static, tmp_path):
    static.save(tmp_path / "model.pte")
    assert (tmp_path / "model.pte").read_bytes() == static.buffer
    os.chmod(tmp_path / "model.pte", 0o600)
    static.save(tmp_path / "model.pte")
    assert (tmp_path / "model.pte").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["model.pte"]
    assert static.method_names == sorted(MODELS)
    with pytest.raises(KeyError, match="no method 'forward'; there are consecutive"):
        static.plan()
    described = static.plan("convolved").to_dict()
    assert described["peak"] == sum(pool["nbytes"] for pool in described["pools"])
    assert "StaticModel(consecutive: " in repr(static)


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.full((2, 2), 3.0))


class Put(State):
    def forward(self, x):
        self.state.copy_(x)
        return x * 1


class Get(State):
    def forward(self):
        return self.state * 1


class Shown(State):
    def forward(self, y):
        return self.state.view(4) * 2 + y


class Added(State):
    def forward(self, x):
        self.state.add_(x)
        return self.state * 2


@pytest.fixture(scope="module")
def stateful():
    ones = torch.ones(2, 2)
    methods = {"put": (Put(), (ones,)), "get": (Get(), ()), "shown": (Shown(), (torch.ones(4),))}
    return etarena.export({**methods, "added": (Added(), (ones,))}, memory="static")


def test_methods_share_buffers_that_begin_with_the_models_values(stateful):
    run, ones = stock_runtime(stateful.buffer), torch.ones(2, 2)
    assert torch.equal(run("get")[0], ones * 3)
    run("put", ones * 5)
    assert torch.equal(run("get")[0], ones * 5)
    assert torch.equal(run("added", ones)[0], ones * 12)
    assert torch.equal(run("get")[0], ones * 6)
    assert torch.equal(run("shown", torch.zeros(4))[0], torch.full((4,), 12.0))
    places = {
        (v.memory_id, v.offset) for m in stateful.method_names for v in stateful.plan(m).values if v.name == "state"
    }
    assert places == {(2, 0)}
    assert not find_faults(stateful.buffer, shared_memory=True)


def test_sizes_vary_up_to_their_bounds():
    model, shapes = Convolved().eval(), {"x": {2: Dim("h", min=5, max=16), 3: Dim("w", min=5, max=20)}}
    exported = etarena.export(model, (torch.randn(1, 3, 8, 8),), dynamic_shapes=shapes, memory="static")
    run = stock_runtime(exported.buffer)
    for size in ((16, 20), (5, 5), (9, 18)):
        x = torch.randn(1, 3, *size)
        torch.testing.assert_close(run("forward", x), list(model(x)))
    assert max(value.nbytes for value in exported.plan().values) == 8 * 14 * 18 * 4


def test_an_export_takes_the_options_of_the_pass():
    planning = etarena.static_planning_pass(alignment=256, alloc_graph_input=False)
    exported = etarena.export(Added(), (torch.ones(2, 2),), memory=planning)
    run = stock_runtime(exported.buffer)
    assert [run("forward", torch.ones(2, 2))[0][0, 0].item() for _ in range(3)] == [8, 10, 12]
    offsets = {value.name: value.offset for value in exported.plan().values}
    assert all(offset % 256 == 0 for offset in offsets.values())
    assert not [name for name in offsets if name == "x"]


class Returned(nn.Module):
    """Gives back an input as it is, changed, and as a view; and one result twice."""

    def forward(self, x, y):
        y.mul_(2)
        z = x + y
        return x, z, y, z, x.view(1, 2), z.view(2, 1)


@pytest.mark.parametrize(("inputs", "outputs"), [(True, True), (True, False), (False, True), (False, False)])
def test_results_that_are_inputs_come_back_whoever_provides_the_memory(inputs, outputs):
    planning = etarena.static_planning_pass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    given, shown = [[torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])] for _ in range(2)]
    wanted = Returned()(*shown)
    exported = etarena.export(Returned(), tuple(one.clone() for one in given), memory=planning)
    got = stock_runtime(exported.buffer)("forward", *given)
    if inputs:  # then the caller's own are left alone, and what became of them comes first
        assert got.pop(0).tolist() == shown[1].tolist() != given[1].tolist()
    else:
        assert given[1].tolist() == shown[1].tolist()
    assert [one.tolist() for one in got] == [one.tolist() for one in wanted]


class Mapped(nn.Module):
    def forward(self, rows):
        return map_rows(lambda row: row * 2, rows)


def test_a_loop_over_rows_of_varying_length_is_refused_because_the_stock_runtime_stops_at_it():
    rows = torch.randn(4, 3)
    with pytest.raises(ExportError, match=r"stacks rows whose size 0 varies \(.*memory='runtime'"):
        etarena.export(Mapped(), (rows,), dynamic_shapes={"rows": {1: Dim("n", max=9)}}, memory="static")
    shapes = {"rows": {0: Dim("n", max=9)}}
    run = stock_runtime(etarena.export(Mapped(), (rows,), dynamic_shapes=shapes, memory="static").buffer)
    for count in (1, 9, 3):
        (got,) = run("forward", rows := torch.randn(count, 3))
        torch.testing.assert_close(got, rows * 2)


class Scaled(nn.Module):
    def forward(self, x, factor):
        return x * factor


def test_numbers_that_vary_are_refused_because_the_stock_runtime_takes_none():
    given = torch.ones(2), 3
    with pytest.raises(ExportError, match=r"input 'factor' is a number that varies.*\.item\(\)"):
        etarena.export(Scaled(), given, dynamic_shapes={"x": None, "factor": Dim.DYNAMIC}, memory="static")
    (fixed,) = stock_runtime(etarena.export(Scaled(), given, memory="static").buffer)("forward", *given)
    assert fixed.tolist() == [3, 3]


def test_a_size_without_a_bound_is_refused_by_its_name():
    shapes = {"x": {0: Dim("rows")}}
    with pytest.raises(
        ExportError, match=r"size 0 of 'input_1' is rows, and rows has no upper bound.*Dim\(\.\.\., max=LIMIT\)"
    ):
        etarena.export(
            nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes={"input": {0: Dim("rows")}}, memory="static"
        )
    program = to_edge_transform_and_lower(export(Doubled(), (torch.randn(4, 3),), dynamic_shapes=shapes))
    with pytest.raises(ExportError, match="size 0 of 'x'"):
        program.to_executorch(ExecutorchBackendConfig(memory_planning_pass=etarena.static_planning_pass()))


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def test_devices_and_unknown_kinds_of_memory_are_refused():
    with pytest.raises(InputError, match="keeps inputs and outputs on the CPU"):
        etarena.export(Doubled(), (torch.ones(2),), memory="static", output_devices="vulkan")
    planning = etarena.static_planning_pass(alloc_mutable_buffers=False)
    with pytest.raises(InputError, match="keeps its mutable buffers"):
        etarena.export(Doubled(), (torch.ones(2),), memory=planning)
    with pytest.raises(InputError, match=r"expected 'runtime', 'static' or a static_planning_pass\(...\), got 'heap'"):
        etarena.export(Doubled(), (torch.ones(2),), memory="heap")


def test_the_static_side_loads_nothing_that_plans_at_run_time():
    code = (
        "import sys, etarena.static as s; [getattr(s, name) for name in s.__all__]; import etarena.static.lowering; "
        "native = {n for n, m in sys.modules.items() if (getattr(m, '__file__', None) or '').endswith('.so')}; "
        "print([n for n in native if n.startswith('etarena') and not n.startswith('etarena.allocator')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
