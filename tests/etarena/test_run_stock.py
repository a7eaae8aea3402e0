"""Stock ``.pte`` files, without a plan section: they load and run, and wrong inputs are errors, not wrong results."""

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from torch import nn
from torch.export import Dim, export

import etarena

from ..helpers.oracle import assert_same


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x)), x.sum()


def stock_file(model, example, dynamic_shapes=None, partitioners=(), **planning) -> bytes:
    program = to_edge_transform_and_lower(
        export(model, example, dynamic_shapes=dynamic_shapes), partitioner=list(partitioners)
    )
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(**planning))
    return program.to_executorch(config).buffer


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Net().eval()


PLANNINGS = {
    "planned inputs and outputs": {},
    "caller's inputs": {"alloc_graph_input": False},
    "caller's inputs and outputs": {"alloc_graph_input": False, "alloc_graph_output": False},
}


@pytest.mark.parametrize("planning", PLANNINGS)
def test_bounded_file_runs_up_to_its_bound(model, planning):
    shapes = {"x": {2: Dim("h", max=32), 3: Dim("w", max=32)}}
    data = stock_file(model, (torch.randn(1, 3, 8, 8),), shapes, **PLANNINGS[planning])
    method = etarena.load(data, etarena.Arena(1 << 30)).method()
    for h, w in ((8, 8), (32, 32), (5, 17), (8, 8)):
        x = torch.randn(1, 3, h, w)
        results = method.execute([x])
        for actual, expected in zip(results, model(x), strict=True):
            assert_same(actual, expected)
    with pytest.raises(etarena.ShapeError, match=r"dimension 2 of input 0 is 33.*at most 32"):
        method.execute([torch.randn(1, 3, 33, 8)])
    x = torch.randn(1, 3, 4, 4)
    assert_same(method.execute([x])[0], model(x)[0])
    assert method.section is None
    assert method.last_run.arena_bytes > 0


def test_static_file_refuses_what_stock_takes_silently(model):
    method = etarena.load(stock_file(model, (torch.randn(1, 3, 4, 8),))).method()
    with pytest.raises(etarena.ShapeError, match="must be 4"):
        method.execute([torch.randn(1, 3, 8, 4)])
    with pytest.raises(etarena.InputTypeError, match="float32"):
        method.execute([torch.randn(1, 3, 4, 8, dtype=torch.float64)])
    with pytest.raises(etarena.InputError, match="takes 1 inputs"):
        method.execute([])
    x = torch.randn(1, 3, 4, 8).to(memory_format=torch.channels_last)
    assert_same(method.execute([x])[0], model(x)[0])
    assert method.last_run.bytes_copied >= x.nbytes


def test_results_do_not_change_with_the_next_call(model):
    method = etarena.load(stock_file(model, (torch.randn(1, 3, 4, 4),))).method()
    x = torch.randn(1, 3, 4, 4)
    first = method.execute([x])[0]
    method.execute([torch.randn(1, 3, 4, 4)])
    assert_same(first, model(x)[0])


def test_file_lowered_to_xnnpack(model):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    method = etarena.load(stock_file(model, (torch.randn(1, 3, 4, 4),), partitioners=[XnnpackPartitioner()])).method()
    x = torch.randn(1, 3, 4, 4)
    assert_same(method.execute([x])[0], model(x)[0])
    assert method.last_run.scratch_outside_arena == ("XnnpackBackend",)


def test_damaged_stock_file():
    data = stock_file(nn.ReLU(), (torch.randn(4),))
    for size in (0, 5, 50, len(data) // 2):
        with pytest.raises(etarena.Error):
            etarena.load(data[:size])


def test_plan_for_says_that_there_is_no_plan(model):
    method = etarena.load(stock_file(model, (torch.randn(1, 3, 4, 4),))).method()
    with pytest.raises(etarena.Error, match="ahead of time"):
        method.plan_for([(1, 3, 4, 4)])


def test_failed_check_of_the_runtime_does_not_end_the_process():
    """ExecuTorch aborts when a kernel meets types it cannot promote; here that is an exception, again and again."""
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
    from executorch.exir.scalar_type import ScalarType

    lowered = to_edge_transform_and_lower(export(Add(), (torch.ones(4), torch.ones(4))))
    program = lowered.to_executorch().executorch_program
    plan = program.execution_plan[0]
    plan.values[plan.inputs[0]].val.scalar_type = ScalarType.UINT16
    method = etarena.load(bytes(serialize_pte_binary(PTEFile(program=program)))).method()
    for _ in range(3):
        with pytest.raises(etarena.RuntimeFailure, match="promoteTypes not valid") as caught:
            method.execute([torch.ones(4, dtype=torch.uint16), torch.ones(4)])
        assert caught.value.code_name == "Internal"


class Add(nn.Module):
    def forward(self, x, y):
        return x + y
