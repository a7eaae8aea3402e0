"""What can be decided about a static plan, and what makes no sense."""

import copy
import dataclasses
from itertools import islice

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.schema import DeviceType, Program, Tensor
from torch import nn
from torch.export import export
from torch.fx import GraphModule

import etarena
from etarena.allocator.errors import ExportError, InputError, InputTypeError, PlanError
from etarena.quiet import quiet
from etarena.static import find_faults, verify


class Broken(nn.Module):
    """Two parts for XNNPACK with work for the CPU's kernels between and behind them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x):
        return self.second(self.first(x).cumsum(-1) * 0.01).cumsum(-1)


class Chosen(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,)) - 3


class Counter(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("count", torch.zeros(size))

    def forward(self, x):
        self.count.add_(x)
        return self.count + 0


IMAGE, ROW = torch.linspace(-1, 1, 3 * 16 * 16).reshape(1, 3, 16, 16), torch.tensor([1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def broken():
    torch.manual_seed(0)
    model = Broken().eval()
    with quiet():
        return model, to_edge_transform_and_lower(export(model, (IMAGE,)), partitioner=[XnnpackPartitioner()])


@pytest.fixture(scope="module")
def chosen():
    return Chosen(), to_edge_transform_and_lower(export(Chosen(), (ROW,)))


class Prepared:
    """A planning pass before which another pass has changed something."""

    def __init__(self, planning, change):
        self.planning, self.change = planning, change

    def run(self, graph_module, signature):
        self.planning.enable_non_cpu_memory_planning = True
        for module in graph_module.modules():
            if isinstance(module, GraphModule):
                self.change(list(module.graph.nodes))
        return self.planning.run(graph_module, signature)


def planned(edge, planning):
    with quiet():
        return copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))


def results(manager, *inputs):
    with quiet():
        from executorch.runtime import Runtime

        method = Runtime.get().load_program(manager.buffer).load_method("forward")
    return [result.clone() for result in method.execute(list(inputs))]


def check(manager, model, *inputs):
    verify(manager.buffer)
    torch.testing.assert_close(results(manager, *inputs), [model(*inputs)], rtol=1e-4, atol=1e-5)


def test_scratch_of_a_delegate_has_a_place_that_nothing_alive_is_in(broken):
    model, edge = broken
    without, planning = etarena.static_planning_pass(), etarena.static_planning_pass(scratch={"XnnpackBackend": 9000})
    planned(edge, without)
    check(planned(edge, planning), model, IMAGE)
    (plan,) = planning.plans
    assert [(place.delegate, place.nbytes) for place in plan.scratch] == [("XnnpackBackend", 9000)] * 2
    by_name = {value.name: value for value in plan.values}
    for place in plan.scratch:
        own = by_name[f"{place.name} scratch"]
        assert own.last == own.first + 1
        assert place.offset + place.nbytes <= plan.pools[0].nbytes
        for value in plan.values:
            if value is not own and value.first <= own.first < value.last:
                assert value.offset + value.nbytes <= place.offset or place.offset + 9000 <= value.offset
    # An image of 3 x 16 x 16 and one of 8 x 16 x 16 live at each call, and the CPU's kernels need two of the latter.
    image, wide = 3 * 16 * 16 * 4, 8 * 16 * 16 * 4
    assert without.plans[0].lower_bound == 2 * wide
    assert plan.lower_bound == image + wide + 9008


def test_scratch_may_depend_on_the_call(broken):
    asked = []
    planning = etarena.static_planning_pass(scratch={"XnnpackBackend": lambda node: asked.append(node) or 0})
    with pytest.raises(InputError, match="got None"):
        planned(broken[1], etarena.static_planning_pass(scratch={"XnnpackBackend": lambda node: None}))
    planned(broken[1], planning)
    assert planning.plans[0].scratch == []
    needs = {node.name: 100 * number for number, node in enumerate(asked, 1)}
    planning = etarena.static_planning_pass(scratch={"XnnpackBackend": lambda node: needs[node.name], "Other": 5})
    planned(broken[1], planning)
    assert [(place.name, place.nbytes) for place in planning.plans[0].scratch] == list(needs.items())
    assert list(needs.values()) == [100, 200]
    with pytest.raises(InputError, match=r"scratch of 'XnnpackBackend': expected a number of bytes .* got -1"):
        planned(broken[1], etarena.static_planning_pass(scratch={"XnnpackBackend": lambda node: -1}))


def test_values_go_to_the_pools_that_are_preferred(broken):
    model, edge = broken
    planning = etarena.static_planning_pass(
        alignment=128,
        pools={1: 40_000, 3: None},
        prefer=[("*cumsum*", [3]), (lambda value: value.nbytes > 5000, [1, 3])],
    )
    manager = planned(edge, planning)
    check(manager, model, IMAGE)
    (plan,) = planning.plans
    assert {value.memory_id for value in plan.values if "cumsum" in value.name} == {3}
    assert {value.memory_id for value in plan.values if "cumsum" not in value.name} == {1}
    assert all(value.offset % 128 == 0 for value in plan.values)
    (emitted,) = manager.executorch_program.execution_plan
    assert emitted.non_const_buffer_sizes == [0, plan.pools[0].nbytes, 0, plan.pools[1].nbytes]


def test_a_pool_that_is_too_small_says_what_is_missing(broken):
    with pytest.raises(ExportError, match=r"memory id 1 has 10,000 bytes, [\d,]+ too few: .*for XNNPACK.*8,192 bytes"):
        planned(broken[1], etarena.static_planning_pass(pools={1: 10_000}))


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("outputs", [True, False])
def test_inputs_and_outputs_may_be_the_callers(broken, inputs, outputs):
    model, edge = broken
    planning = etarena.static_planning_pass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    manager = planned(edge, planning)
    (emitted,) = manager.executorch_program.execution_plan
    values = [emitted.values[index].val for index in (*emitted.inputs, *emitted.outputs)]
    assert [value.allocation_info is not None for value in values] == [inputs, outputs]
    check(manager, model, IMAGE)


def named(nodes, *names):
    return [node for node in nodes if node.name in names and hasattr(node.meta.get("spec"), "mem_id")]


def test_memory_ids_of_earlier_passes_are_kept(chosen):
    model, edge = chosen

    def change(nodes):
        for node in named(nodes, "x", "aten_sub_tensor"):
            node.meta["spec"].mem_id = 2

    planning = etarena.static_planning_pass()
    check(planned(edge, Prepared(planning, change)), model, ROW)
    ids = {value.name: value.memory_id for value in planning.plans[0].values}
    assert ids["x"] == ids["aten_sub_tensor"] == 2
    assert set(ids.values()) == {1, 2}
    with pytest.raises(ExportError, match=r"an earlier pass gave '\w+' memory id 2, but `pools` has 1, 3"):
        planned(edge, Prepared(etarena.static_planning_pass(pools={1: None, 3: None}), change))


def test_results_of_one_branch_and_the_other_cannot_be_in_two_memories(chosen):
    def change(nodes):
        for number, name in enumerate(("aten_add_tensor", "aten_mul_tensor"), 1):
            for node in named(nodes, name):
                node.meta["spec"].mem_id = number

    with pytest.raises(ExportError, match=r"'cond' and '.*aten_mul_tensor' share memory, .* ids 1 and 2"):
        planned(chosen[1], Prepared(etarena.static_planning_pass(), change))


def test_every_device_has_a_pool_of_its_own(chosen):
    def change(nodes):
        for node in named(nodes, "aten_sub_tensor"):
            node.meta["spec"].device = DeviceType.CUDA

    planning = etarena.static_planning_pass()
    manager = planned(chosen[1], Prepared(planning, change))
    (emitted,) = manager.executorch_program.execution_plan
    (device,) = emitted.non_const_buffer_device
    assert (device.buffer_idx, device.device_type, device.device_index) == (2, DeviceType.CUDA, 0)
    assert emitted.non_const_buffer_sizes[2] == 16
    assert [(pool.memory_id, pool.device) for pool in planning.plans[0].pools] == [(1, "cpu"), (2, "cuda:0")]


def test_a_graph_out_of_order_is_refused(chosen):
    def change(nodes):
        for node in nodes:
            if node.name == "aten_sub_tensor":
                nodes[1].prepend(node)

    with pytest.raises(ExportError, match=r"aten_sub_tensor reads \w+ before it is computed"):
        planned(chosen[1], Prepared(etarena.static_planning_pass(), change))


def test_one_pass_serves_one_export_after_another():
    planning = etarena.static_planning_pass(share_mutable_buffers=True)
    sizes = []
    for size in (4, 1024):
        with quiet():
            edge = to_edge_transform_and_lower(export(Counter(size), (torch.ones(size),)))
        (emitted,) = planned(edge, planning).executorch_program.execution_plan
        sizes.append(emitted.non_const_buffer_sizes[2])
    assert sizes == [16, 4096]


def activations(program):
    values = program.execution_plan[0].values
    return [value.val for value in values if isinstance(value.val, Tensor) and value.val.allocation_info is not None]


def test_the_verifier_sees_a_moved_buffer_and_one_outside_its_memory(broken):
    program = planned(broken[1], etarena.static_planning_pass()).executorch_program
    assert not find_faults(program)
    for number, tensor in enumerate(activations(program)):
        moved = copy.deepcopy(program)
        moved.execution_plan[0].non_const_buffer_sizes[1] = 1 << 20
        place = activations(moved)[number].allocation_info
        place.memory_offset_low = 1 << 20
        assert "ends at byte" in str(find_faults(moved)[0])
        place.memory_offset_low = 1 << 16  # within, and away from everything
        assert not find_faults(moved), tensor
        place.memory_id = 2
        assert "of memory id 2, which has 0 bytes" in str(find_faults(moved)[0])
    packed = copy.deepcopy(program)
    for tensor in activations(packed):
        tensor.allocation_info.memory_offset_low = 0
    with pytest.raises(
        PlanError, match=r"values \d+ and \d+ are both needed at .* share bytes 0 to 3072 of memory id 1"
    ):
        verify(packed)


def test_the_verifier_refuses_what_is_no_program():
    with pytest.raises(PlanError, match="no ExecuTorch program"):
        verify(b"not a program")
    with pytest.raises(InputTypeError, match=r"expected an ExecuTorch Program or the bytes of a \.pte file, got str"):
        verify("model.pte")
    for methods in ([], None):  # None is what a damaged file gives
        with pytest.raises(PlanError, match="no method"):
            verify(Program(0, methods, [], [], [], [], []))


def places(part):
    """Every part of a program, as what holds it and its key."""
    keys = range(len(part)) if isinstance(part, list) else [f.name for f in dataclasses.fields(part)]
    for key in keys:
        value = part[key] if isinstance(part, list) else getattr(part, key)
        yield part, key, value
        if isinstance(value, list) or dataclasses.is_dataclass(value):
            yield from places(value)


def test_the_verifier_survives_whatever_is_wrong_or_missing_in_a_damaged_program(chosen):
    sound = planned(chosen[1], etarena.static_planning_pass()).executorch_program
    kinds = [isinstance(value, int) for _, _, value in places(sound.execution_plan)]
    refused = 0
    for wrong in (-1, -5, 1 << 31, None):  # None is what is missing
        for which, is_number in enumerate(kinds):
            if wrong is not None and not is_number:
                continue
            damaged = copy.deepcopy(sound)
            part, key, _ = next(islice(places(damaged.execution_plan), which, None))
            if isinstance(part, list):
                part[key] = wrong
            else:
                setattr(part, key, wrong)
            try:
                verify(damaged)
            except (PlanError, ExportError):  # the latter for an operator that is none
                refused += 1
    assert refused > len(kinds)


def test_the_verifier_names_the_instruction_that_points_nowhere(chosen):
    damaged = copy.deepcopy(planned(chosen[1], etarena.static_planning_pass()).executorch_program)
    (plan,) = damaged.execution_plan
    at, call = next((at, one.instr_args) for at, one in enumerate(plan.chains[0].instructions))
    call.args[-1] = len(plan.values)
    with pytest.raises(PlanError, match=f"'forward': instruction {at} names number {len(plan.values)} of its "):
        verify(damaged)


@pytest.mark.parametrize("name", [None, "", "aten", "aten:add", "nowhere::add"])
def test_the_verifier_refuses_operators_without_a_proper_name(chosen, name):
    damaged = copy.deepcopy(planned(chosen[1], etarena.static_planning_pass()).executorch_program)
    damaged.execution_plan[0].operators[0].name = name
    with pytest.raises((PlanError, ExportError), match=r"an operator has no name|has no schema"):
        verify(damaged)


def test_predicates_and_scratch_that_fail_are_named(broken):
    def unsure(candidate):
        raise RuntimeError("no idea")

    with pytest.raises(InputError, match=r"prefer: .*unsure.* fails for '\w+': RuntimeError: no idea"):
        planned(broken[1], etarena.static_planning_pass(prefer=[(unsure, [1])]))
    with pytest.raises(InputError, match=r"scratch of 'XnnpackBackend' fails for .*RuntimeError: no idea"):
        planned(broken[1], etarena.static_planning_pass(scratch={"XnnpackBackend": unsure}))


BAD = {
    "alignment of 24": ({"alignment": 24}, InputError, "power of two"),
    "alignment of 0": ({"alignment": 0}, InputError, "power of two"),
    "alignment in words": ({"alignment": "16"}, InputTypeError, "power of two"),
    "no pools": ({"pools": {}}, InputError, "no pool"),
    "pool of constants": ({"pools": {0: None}}, InputError, "0 is for constants"),
    "negative pool": ({"pools": {1: -1}}, InputError, "expected bytes or None"),
    "list of pools": ({"pools": [1]}, InputTypeError, "mapping of memory ids"),
    "preference for a pool there is not": ({"prefer": {"a": [2]}}, InputError, "memory id 2; pools has 1"),
    "preference for nothing": ({"prefer": {"a": []}}, InputError, "memory id none"),
    "preference without pools": ({"prefer": ["a"]}, InputTypeError, "pairs"),
    "preferences as a number": ({"prefer": 5}, InputTypeError, "sequence of pairs"),
    "preferences in words": ({"prefer": "conv"}, InputTypeError, "sequence of pairs"),
    "preference for half a pool": ({"prefer": {"a": 1.5}}, InputTypeError, "memory ids for 'a', got 1.5"),
    "pool of a billion": ({"pools": {10**9: None}}, InputError, "up to 65536"),
    "preference by number": ({"prefer": [(3, [1])]}, InputTypeError, "a name"),
    "negative scratch": ({"scratch": {"XnnpackBackend": -1}}, InputError, "expected bytes or a function"),
    "scratch without a delegate": ({"scratch": {7: 1}}, InputTypeError, "named by their id"),
    "scratch as a number": ({"scratch": 7}, InputTypeError, "mapping of delegate ids"),
    "negative budget": ({"budget": -1.0}, InputError, "seconds"),
    "budget in words": ({"budget": "long"}, InputTypeError, "seconds"),
    "unknown option": ({"algorithm": "greedy"}, TypeError, "unexpected keyword argument 'algorithm'"),
}


@pytest.mark.parametrize(("options", "error", "message"), BAD.values(), ids=list(BAD))
def test_options_that_make_no_sense_are_refused_at_once(options, error, message):
    with pytest.raises(error, match=message):
        etarena.static_planning_pass(**options)
