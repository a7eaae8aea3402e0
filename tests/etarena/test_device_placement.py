"""Devices of a program's values: what the export tags, and where it puts copies."""

import pytest
import torch
from torch.export import Dim

import etarena
from etarena.allocator.plan import Kind
from tests.helpers.placed_backend import PlacedPartitioner

VULKAN, CUDA = (7, 0), (1, 1)


class Mixed(torch.nn.Module):
    """A product on a device, relu and a sum on the CPU, another product on the device."""

    def forward(self, x, y):
        a = x * y
        b = a.relu()
        return b * a, a, b.sum()


def exported(module=None, partitioners=None, inputs=None, **options):
    n = Dim("n")
    inputs = (torch.randn(3, 4), torch.randn(3, 4)) if inputs is None else inputs
    return etarena.export(
        Mixed().eval() if module is None else module,
        inputs,
        dynamic_shapes=tuple({0: n} for _ in inputs),
        partitioners=[PlacedPartitioner("vulkan:0", "aten.mul")] if partitioners is None else partitioners,
        **options,
    ).plan()


def devices(section):
    return {value.name: (value.device_type, value.device_index) for value in section.values}


def transfers(section):
    return [position for position, label in enumerate(section.labels) if label == "etarena::to_device.out"]


def output_devices(section):
    return [devices(section)[section.values[output.value].name] for output in section.outputs]


def test_everything_is_on_the_cpu_without_devices():
    section = exported(partitioners=[])
    assert set(devices(section).values()) == {(0, 0)}
    assert transfers(section) == []


def test_a_delegate_on_a_device_gets_copies_of_cpu_values():
    section = exported()
    assert output_devices(section) == [(0, 0)] * 3
    found = devices(section)
    # x, y, relu's result go up; the first product and the last one come down.
    assert len(transfers(section)) == 5
    assert [found["x"], found["y"]] == [(0, 0), (0, 0)]
    delegates = [value for value in section.values if value.definition == "PlacedBackend"]
    assert [(value.device_type, value.device_index) for value in delegates] == [VULKAN, VULKAN]


def test_one_copy_serves_all_who_want_it():
    class Twice(torch.nn.Module):
        def forward(self, x, y):
            a = x * y
            return a.relu(), a.sigmoid(), a.exp()

    assert len(transfers(exported(Twice()))) == 3  # x and y go up, the product comes down once


def test_inputs_and_outputs_on_the_device_need_no_copy():
    class Product(torch.nn.Module):
        def forward(self, x, y):
            return x * y

    section = exported(
        Product(), input_devices={"x": "vulkan:0", "y": "vulkan"}, output_devices="vulkan", copies="error"
    )
    assert transfers(section) == []
    assert output_devices(section) == [VULKAN]
    assert [value.kind for value in section.values] == [Kind.INPUT, Kind.INPUT, Kind.OUTPUT]
    assert set(devices(section).values()) == {VULKAN}


def test_a_value_copied_up_and_wanted_below_is_not_copied_down_again():
    class Both(torch.nn.Module):
        def forward(self, x, y):
            return x * y, x.relu()

    assert len(transfers(exported(Both()))) == 3  # x, y up; the product down; relu reads x itself


def test_two_devices_meet_by_a_copy():
    partitioners = [PlacedPartitioner("vulkan:0", "aten.mul"), PlacedPartitioner("cuda:1", "aten.sigmoid")]

    class Chain(torch.nn.Module):
        def forward(self, x):
            return (x * x).sigmoid()

    places = {"input_devices": {"x": "vulkan:0"}, "output_devices": ["cuda:1"]}
    section = exported(Chain(), partitioners, (torch.randn(3, 4),), **places)
    assert len(transfers(section)) == 1
    assert output_devices(section) == [CUDA]


def test_an_output_that_is_an_input_on_a_device_is_a_copy():
    class Same(torch.nn.Module):
        def forward(self, x, y):
            return x * y, x

    section = exported(Same(), input_devices={"x": "vulkan", "y": "vulkan"}, output_devices=["vulkan", "vulkan"])
    assert len(transfers(section)) == 1
    assert output_devices(section) == [VULKAN, VULKAN]
    assert len({output.index for output in section.outputs}) == 2


def test_a_size_read_off_a_device_tensor_needs_no_copy():
    class Sized(torch.nn.Module):
        def forward(self, x, y):
            return x * y, torch.zeros(x.shape[0] + 1)

    section = exported(Sized(), input_devices={"x": "vulkan", "y": "vulkan"}, output_devices=["vulkan", None])
    assert transfers(section) == []


def test_values_of_devices_are_not_planned_in_the_arena():
    section = exported()
    planned = [value for value in section.values if value.is_planned]
    assert all(value.device_type == 0 for value in planned)
    assert all(section.values[position].device_type == 0 for position in section.order)


def test_copies_can_be_refused_by_name():
    with pytest.raises(
        etarena.ExportError, match=r"value 'x' is on cpu, delegate 'PlacedBackend'.*on vulkan:0.*copies="
    ):
        exported(copies="error")
    places = {"input_devices": {"x": "vulkan", "y": "vulkan"}, "output_devices": {0: "vulkan", 1: "vulkan"}}
    with pytest.raises(
        etarena.ExportError,
        match=r"result 0 of delegate 'PlacedBackend'\) is on vulkan:0, operator aten::relu .*CPU, needs it on cpu",
    ):
        exported(copies="error", **places)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"input_devices": {"z": "cpu"}}, etarena.InputError, "no input 'z'; its inputs are x, y"),
        ({"input_devices": ["cpu"]}, etarena.InputTypeError, "mapping of input names"),
        ({"input_devices": {"x": "gpu"}}, etarena.Error, "'gpu' names no device"),
        ({"output_devices": ["cpu"] * 5}, etarena.InputError, "has 3 outputs, no output 3"),
        ({"output_devices": {-1: "cpu"}}, etarena.InputError, "no output -1"),
        ({"output_devices": {"a": "cpu"}}, etarena.InputTypeError, "positions of outputs are ints"),
        ({"output_devices": 3.5}, etarena.Error, "names no device"),
        ({"copies": "maybe"}, etarena.InputError, "expected 'insert' or 'error'"),
    ],
)
def test_bad_arguments_are_named(options, error, text):
    with pytest.raises(error, match=text):
        exported(**options)


def test_a_number_has_no_device():
    class Shifted(torch.nn.Module):
        def forward(self, x, k):
            return x * 2 + k, k

    example = (torch.randn(3, 4), 5)
    with pytest.raises(etarena.InputError, match="is no tensor"):
        etarena.export(Shifted(), example, input_devices={"k": "vulkan"})
    with pytest.raises(etarena.InputError, match="output 1 of method 'forward' is no tensor"):
        etarena.export(Shifted(), example, dynamic_shapes=({}, Dim.DYNAMIC), output_devices=[None, "vulkan"])


@pytest.mark.parametrize("dynamic", [Dim.DYNAMIC, None])
def test_one_device_for_all_outputs_is_for_tensors(dynamic):
    class Counted(torch.nn.Module):
        def forward(self, x, k):
            return x * 2, k + 1

    with pytest.raises(etarena.InputError, match="output 1 of method 'forward' is no tensor: give devices by position"):
        etarena.export(Counted(), (torch.randn(3, 4), 5), dynamic_shapes=({}, dynamic), output_devices="vulkan")


def test_one_device_for_all_outputs_leaves_states_on_the_cpu():
    class Adding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3, 4))

        def forward(self, x):
            self.total.add_(x * x)
            return x * 3

    section = etarena.export(Adding(), (torch.randn(3, 4),), output_devices="vulkan").plan()
    assert output_devices(section) == [VULKAN]
    (state,) = section.states
    assert section.values[state.value].device_type == section.values[state.result].device_type == 0
    assert len(transfers(section)) == 1


def test_an_input_that_the_model_writes_stays_on_the_cpu():
    class Counting(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    with pytest.raises(etarena.ExportError, match=r"writes into input 'x', which is to be on vulkan:0"):
        etarena.export(Counting(), (torch.randn(3),), input_devices={"x": "vulkan"})


def test_a_bad_target_device_names_the_delegate():
    with pytest.raises(etarena.ExportError, match="delegate 'PlacedBackend' has a bad target_device"):
        exported(partitioners=[PlacedPartitioner("toaster", "aten.mul")])


def test_methods_have_devices_of_their_own():
    class Product(torch.nn.Module):
        def forward(self, x):
            return x * 3

    methods = {"up": (Product(), (torch.randn(2, 2),)), "down": (Product(), (torch.randn(2, 2),))}
    partitioners = [PlacedPartitioner("vulkan:0", "aten.mul")]
    both = etarena.export(
        methods, partitioners=partitioners, input_devices={"up": {"x": "vulkan"}}, output_devices={"down": "vulkan"}
    )
    assert output_devices(both.plan("up")) == [(0, 0)]
    assert output_devices(both.plan("down")) == [VULKAN]
    with pytest.raises(etarena.InputError, match="no method 'sideways'"):
        etarena.export(methods, input_devices={"sideways": {}})
    with pytest.raises(etarena.InputTypeError, match="a mapping of their names"):
        etarena.export(methods, output_devices="vulkan")
