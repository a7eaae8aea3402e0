"""Devices follow the map, the model's own conversions and PyTorch's rules."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import etarena


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(self.body(rows).relu()) + 1


def places(found: etarena.Propagation) -> dict[str, str]:
    return {value.name: str(value.device) for value in found.values}


@pytest.mark.parametrize("device", ["cuda:1", "vulkan:0", "hexagon:2", "custom64:0", etarena.Device("metal", 1)])
def test_submodules_where_the_map_says(device: Any) -> None:
    found = etarena.propagate(Two(), (torch.randn(3, 4),), device_map={"": "cpu", "head": device})
    name = str(etarena.Device(device))
    where = places(found)
    assert (where["body.addmm"], where["head.weight"], where["head.addmm"], where["add"]) == ("cpu", name, name, name)
    (copy,) = found.copies
    assert (str(copy.source), str(copy.target), copy.nbytes, copy.before) == ("cpu", name, 48, "head")
    assert {value.device for value in found.values} == {etarena.Device("cpu"), etarena.Device(device)}


def test_parameters_and_inputs_have_entries_of_their_own() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.ones(3))

        def forward(self, rows: Tensor) -> Tensor:
            return rows * self.factor

    everywhere = {"rows": "cuda:1", "factor": "cuda:1"}
    assert places(etarena.propagate(Scale(), (torch.ones(3),), device_map=everywhere))["mul"] == "cuda:1"


def test_conversions_and_numbers_on_the_cpu() -> None:
    class Moves(nn.Module):
        def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
            there = rows.to("vulkan:1")
            scaled = there * rows.sum()  # a tensor without dimensions goes along
            made = torch.zeros(2, device="cuda:0")
            return scaled, scaled[:, :1], scaled.cpu(), rows.cuda(), made + 1

    found = etarena.propagate(Moves(), (torch.ones(2, 3),))
    where = places(found)
    assert (where["mul"], where["slice"], where["add"]) == ("vulkan:1", "vulkan:1", "cuda:0")
    assert (where["_to_copy_1"], where["_to_copy_2"]) == ("cpu", "cuda:0")
    assert not found.copies


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "vulkan:0", "mps", "cpu"])
def test_a_conversion_to_where_a_tensor_is_makes_no_value(name: str) -> None:
    class There(nn.Module):
        def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
            moved = rows.to(name), rows.to(device=torch.device(name)), rows.to(name, torch.float32)
            return *moved, rows.cuda() if "cuda" in name else rows

    home = {"mps": "metal"}.get(name, name)
    found = etarena.propagate(There(), (torch.ones(2, 3),), device_map={"rows": home})
    assert [value.name for value in found.values] == ["rows"]
    elsewhere = etarena.propagate(There(), (torch.ones(2, 3),), device_map={"rows": "custom64:0"})
    assert {str(value.device) for value in elsewhere.values[1:]} == {str(etarena.Device(home))}


class Meeting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(2, 2)
        self.right = nn.Linear(2, 2)

    def forward(self, rows: Tensor) -> Tensor:
        return self.left(rows) + self.right(rows)


def test_devices_that_meet_are_an_error_without_a_home() -> None:
    split = {"left": "cuda:0", "right": "vulkan:0"}
    with pytest.raises(etarena.DeviceError, match=r"aten.add.Tensor.*left.addmm.*cuda:0.*right.addmm.*vulkan:0"):
        etarena.propagate(Meeting(), (torch.ones(1, 2),), device_map=split)
    found = etarena.propagate(Meeting(), (torch.ones(1, 2),), device_map={"": "cpu", **split})
    assert places(found)["add"] == "cpu"
    assert [str(copy.target) for copy in found.copies] == ["cuda:0", "vulkan:0", "cpu", "cpu"]


def test_no_copies_on_request() -> None:
    with pytest.raises(etarena.DeviceError, match=r"in 'head'.*relu.*on cpu.*copies='insert'"):
        etarena.propagate(Two(), (torch.ones(1, 4),), device_map={"head": "cuda:0"}, copies="error")


def test_a_program_on_devices() -> None:
    program = torch.export.export(Two(), (torch.ones(3, 4),))
    found = etarena.propagate(program, device_map={"": "cpu", "head": "vulkan:0"})
    where = places(found)
    assert (where["head.weight"], where["linear_1.addmm"]) == ("vulkan:0", "vulkan:0")


@pytest.mark.parametrize(
    ("mapped", "error", "words"),
    [
        ({"head": "nowhere:0"}, etarena.DeviceError, "entry 'head'.*'nowhere:0'"),
        ({"tail": "cpu"}, etarena.InputError, "'tail' is no submodule.*body, head.*rows"),
        ({3: "cpu"}, etarena.InputTypeError, "names are text"),
        ({"head": []}, etarena.DeviceError, "entry 'head'.*list"),
        ("meta", etarena.DeviceError, "'meta'"),
        (object(), etarena.DeviceError, "object"),
    ],
)
def test_maps_that_make_no_sense(mapped: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        etarena.propagate(Two(), (torch.ones(1, 4),), device_map=mapped)
