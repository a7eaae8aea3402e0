"""What a plan section says about small modules: kinds, storages, names, inputs, outputs, state."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena
from etarena.allocator.plan import Kind, Scalar, decode

from ..helpers.memory_walk import MemoryWalk, emitted_plan

DYNAMIC = Dim.DYNAMIC


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def export_rows(function, dynamic=True):
    """Export a function of one float [n, 4] tensor."""
    return etarena.export(
        Lambda(function), (torch.randn(5, 4),), dynamic_shapes={"x": {0: DYNAMIC}} if dynamic else None
    )


def test_values_are_named_after_graph_nodes_and_say_what_defines_them():
    section = export_rows(lambda x: torch.relu(torch.sin(x))).plan()
    assert [value.name for value in section.values] == ["x", "aten_sin_default", "aten_relu_default"]
    assert [value.definition for value in section.values] == ["", "aten::sin.out", "aten::relu.out"]
    assert section.labels == ["aten::sin.out", "aten::relu.out"]


def test_the_file_holds_the_section_that_plan_returns():
    exported = export_rows(lambda x: x + 1)
    delegates = emitted_plan(exported).delegates
    assert [delegate.id for delegate in delegates] == ["EtarenaPlan"]
    start = exported.buffer.index(etarena.allocator.plan.MAGIC)
    assert decode(exported.buffer[start:]) == exported.plan()


def test_no_value_in_the_file_has_memory():
    exported = export_rows(lambda x: torch.sin(x).view(-1) * 2)
    tensors = [value.val for value in emitted_plan(exported).values if hasattr(value.val, "allocation_info")]
    assert tensors
    assert all(tensor.allocation_info is None for tensor in tensors)


def test_lifetimes_of_a_chain():
    section = export_rows(lambda x: torch.sin(torch.cos(torch.exp(x)))).plan()
    assert [(value.kind, value.first, value.last) for value in section.values] == [
        (Kind.INPUT, 0, 1),
        (Kind.ACTIVATION, 0, 2),
        (Kind.ACTIVATION, 1, 3),
        (Kind.OUTPUT, 2, 3),
    ]


def test_a_view_has_the_storage_of_its_base():
    section = export_rows(lambda x: torch.sin(x).view(-1).view(-1, 2) * 2).plan()
    views = [value for value in section.values if value.name.startswith("aten_view_copy")]
    assert views
    assert all(section.values[view.storage].name == "aten_sin_default" for view in views)


def test_a_view_of_the_input_is_the_callers_memory():
    section = export_rows(lambda x: x.view(-1, 2) * 2).plan()
    (view,) = [value for value in section.values if value.name.startswith("aten_view_copy")]
    assert view.kind is Kind.INPUT
    assert section.values[view.storage].name == "x"


def test_outputs_that_are_one_value():
    section = export_rows(lambda x: (lambda y: (y, y))(x + 1)).plan()
    first, second = section.outputs
    assert first == second
    assert section.values[first.value].kind is Kind.OUTPUT


def test_an_output_that_is_an_input_stays_the_callers():
    section = export_rows(lambda x: (x, x + 1)).plan()
    assert [section.values[output.value].kind for output in section.outputs] == [Kind.INPUT, Kind.OUTPUT]


def test_in_place_work_on_an_input_is_hidden_from_the_outputs():
    section = export_rows(lambda x: torch.relu_(x) + x).plan()
    assert [item.mutated for item in section.inputs] == [True]
    assert [output.hidden for output in section.outputs] == [True, False]
    assert section.values[section.outputs[0].value].kind is Kind.INPUT


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("offset", torch.randn(3))

    def forward(self, x):
        return x + 1, self.weight, self.offset


def test_returned_constants_are_listed_as_constants_with_their_names():
    section = etarena.export(Constants(), (torch.randn(2, 3),)).plan()
    returned = [section.values[output.value] for output in section.outputs]
    assert [value.kind for value in returned] == [Kind.OUTPUT, Kind.CONSTANT, Kind.CONSTANT]
    assert [value.name for value in returned[1:3]] == ["weight", "offset"]


def test_inputs_have_the_names_of_the_arguments():
    exported = etarena.export(nn.Linear(4, 4), (torch.randn(2, 4),), dynamic_shapes={"input": {0: DYNAMIC}})
    assert [item.name for item in exported.plan().inputs] == ["input"]


def test_constants_that_are_only_read_are_not_listed():
    section = etarena.export(nn.Linear(4, 4), (torch.randn(2, 4),)).plan()
    assert all(value.kind is not Kind.CONSTANT for value in section.values)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor([1.0, 2.0]))
        self.register_buffer("zeros", torch.zeros(2, 2), persistent=False)
        self.register_buffer("fixed", torch.ones(2))

    def forward(self, x):
        self.count += x
        self.zeros += 1
        return self.count * self.fixed


def test_mutable_buffers_are_states_with_their_start_values():
    section = etarena.export(Counter(), (torch.ones(2),)).plan()
    states = {state.name: state for state in section.states}
    assert set(states) == {"count", "zeros"}
    assert states["count"].initial == torch.tensor([1.0, 2.0]).numpy().tobytes()
    assert states["zeros"].initial == b""
    assert all(section.values[state.value].kind is Kind.STATE for state in section.states)
    assert len(section.outputs) == 1


class Shared(nn.Module):
    def __init__(self, core, how):
        super().__init__()
        self.core, self.how = core, how

    def forward(self, x):
        if self.how == "write":
            self.core.weight.copy_(x)
            return x + 0
        return self.core.weight + x


def test_a_method_that_only_reads_what_another_writes_gets_it_as_state():
    core = nn.Module()
    core.register_buffer("weight", torch.ones(2))
    x = torch.ones(2)
    exported = etarena.export({"set": (Shared(core, "write"), (x,)), "get": (Shared(core, "read"), (x,))})
    assert exported.method_names == ["get", "set"]
    for name in exported.method_names:
        (state,) = exported.plan(name).states
        assert state.name == "core.weight"
        assert state.initial == torch.ones(2).numpy().tobytes()


def test_one_name_for_two_different_buffers_is_refused():
    small, large = nn.Module(), nn.Module()
    small.register_buffer("weight", torch.ones(2))
    large.register_buffer("weight", torch.ones(3))
    methods = {"a": (Shared(small, "write"), (torch.ones(2),)), "b": (Shared(large, "write"), (torch.ones(3),))}
    with pytest.raises(etarena.ExportError, match=r"core\.weight.*one state"):
        etarena.export(methods)


def test_delegate_calls_have_their_index_in_the_finished_file():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    class Sandwich(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.second(torch.cumsum(self.first(x), 1))

    exported = etarena.export(
        Sandwich(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: DYNAMIC}}, partitioners=[XnnpackPartitioner()]
    )
    section, emitted = exported.plan(), emitted_plan(exported)
    assert [delegate.index for delegate in section.delegates] == [1, 2]
    for delegate in section.delegates:
        call = emitted.chains[0].instructions[delegate.instruction].instr_args
        assert call.delegate_index == delegate.index
        assert emitted.delegates[delegate.index].id == delegate.id == section.labels[delegate.instruction]
        assert call.args == delegate.arguments


class Numbers(nn.Module):
    def forward(self, x, n: int, scale: float, flag: bool, text: str, nothing):
        return x * scale + n, x.shape[0] // 2 + 1, n


def test_inputs_and_outputs_that_are_no_tensors():
    exported = etarena.export(
        Numbers(),
        (torch.randn(5, 3), 7, 2.5, True, "abc", None),
        dynamic_shapes={"x": {0: DYNAMIC}, "n": None, "scale": None, "flag": None, "text": None, "nothing": None},
    )
    section = exported.plan()
    scalars = [item.scalar for item in section.inputs]
    assert scalars == [Scalar.TENSOR, Scalar.INT, Scalar.FLOAT, Scalar.BOOL, Scalar.STRING, Scalar.NONE]
    assert section.inputs[1].int_value == 7
    assert section.inputs[2].float_value == 2.5
    assert section.inputs[3].int_value == 1
    assert section.inputs[4].string_value == "abc"
    assert [output.scalar for output in section.outputs] == [Scalar.TENSOR, Scalar.INT, Scalar.INT]
    registers = etarena.allocator.sizes.SizeProgram(len(section.symbols), section.size_code).evaluate([9])
    assert registers[section.outputs[1].register] == 9 // 2 + 1
    assert registers[section.outputs[2].register] == 7


WALKED = {
    "views": lambda x: torch.cat([(x + 1).view(-1), torch.sin(x).flatten(), (x * 2).view(-1)]).view(-1, 2) * 3,
    "split": lambda x: sum(part * 2 for part in torch.split(torch.sin(x), 1, dim=1)),
    "two outputs of one operator": lambda x: torch.max(torch.sin(x), 1)[0] + torch.max(torch.cos(x), 1)[1],
    "in place": lambda x: torch.sin(x).add_(1).mul_(torch.cos(x)) + x,
    "index": lambda x: (x + 1)[torch.tensor([0, 0])] * 2,
    "branch": lambda x: torch.cond(x.sum() > 0, lambda v: torch.sin(v) + 1, lambda v: v * 2 - 1, (x,)) + torch.cos(x),
}


@pytest.mark.parametrize("function", WALKED.values(), ids=WALKED)
def test_nothing_is_read_after_it_was_overwritten(function):
    walk = MemoryWalk(export_rows(function))
    assert walk.paths >= 1
    assert walk.errors == []


def test_the_walk_sees_lifetimes_that_are_too_short():
    exported = export_rows(WALKED["views"])
    for value in exported.plan().values:
        if value.kind is Kind.ACTIVATION and value.last > value.first + 1:
            value.last = value.first + 1
    assert MemoryWalk(exported).errors
