"""Which device every value of a program is on, and the copies between devices that follow from it.

Inputs and outputs are where the user says. What a delegate is given and gives is on the delegate's device (the compile
spec ``target_device``, as ExecuTorch's partitioners write it), or stays where it is if the delegate takes it there (the
compile spec ``takes_devices``: names of device types with commas between). Everything else is on the CPU, whose kernels
can read nothing else. Where the two ends of an edge differ, a copy is put in between: an operator of the program, which
the run time counts. Bodies of control flow take and return what is on the CPU.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import executorch.exir.passes.propagate_device_pass as stock
import torch
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node

from ..allocator.errors import DeviceError, ExportError, InputError
from ..device.device import Device
from ..ops.transfer import TRANSFERS
from ..traced import user_input_names

__all__ = ["CPU", "DEVICE", "TO_DEVICE", "Placement", "own_device_tags", "place_on_devices"]

assert TRANSFERS == "etarena::to_device"
TO_DEVICE = exir_ops.edge.etarena.to_device.default
DEVICE = "etarena_device"
"""Key of a node's meta: the device of what it makes, where that is not the CPU."""
CPU = Device("cpu")
TARGET_DEVICE = "target_device"
TAKES_DEVICES = "takes_devices"


@dataclass(frozen=True)
class Placement:
    """What the user asks for.

    Attributes
    ----------
    inputs
        Device of an input by its name; the CPU for all others.
    outputs
        Device of each output of the model by its position, the CPU for all others; or one device for all of them.
    copies
        ``"insert"``: copies between devices are put into the program; ``"error"``: they are refused.
    """

    inputs: Mapping[str, Device] = field(default_factory=dict)
    outputs: Mapping[int, Device] | Device = field(default_factory=dict)
    copies: str = "insert"

    def output_devices(self, count: int, method: str) -> list[Device]:
        """The device of each of a method's `count` outputs; InputError if one is named that it does not have."""
        if isinstance(self.outputs, Device):
            return [self.outputs] * count
        outside = sorted(position for position in self.outputs if not 0 <= position < count)
        if outside:
            raise InputError(f"output_devices: method {method!r} has {count} outputs, no output {outside[0]}")
        return [self.outputs.get(position, CPU) for position in range(count)]


def place_on_devices(program: ExportedProgram, placement: Placement, method: str, names: Sequence[str]) -> None:
    """Tag the nodes of a partitioned program with devices (meta `DEVICE`) and put copies in, in place.

    Parameters
    ----------
    program : ExportedProgram
        The method in the edge dialect, partitioned.
    placement : Placement
        Where inputs and outputs are to be.
    method : str
        Name of the method, for messages.
    names : sequence of str
        The user's names of the inputs, in order.

    Raises
    ------
    ExportError
        If a copy is needed and refused: it names the value, the operator that wants it and both devices. If the model
        writes into an input on another device.
    InputError
        If the placement names an input or output that does not exist, or that is no tensor.
    """
    placer = _Placer(program, placement, method, names)
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule) and not isinstance(module, LoweredBackendModule):
            placer.place(module, module is program.graph_module)


@contextmanager
def own_device_tags() -> Iterator[None]:
    """Within the block, ExecuTorch's own pass tags no tensor: it knows the CPU and CUDA only, and no run-time plan."""
    with mock.patch.object(stock, "_get_target_device_from_compile_specs", return_value=None):
        yield


class _Placer:
    """Works on one method."""

    def __init__(self, program: ExportedProgram, placement: Placement, method: str, names: Sequence[str]) -> None:
        self.program, self.placement, self.method = program, placement, method
        self.inputs = self._user_inputs(names)
        self.copies: dict[tuple[Node, Device], Node] = {}

    def _user_inputs(self, names: Sequence[str]) -> dict[str, Device]:
        """Device of each input by the name of its placeholder, which lowering may have changed."""
        unknown = sorted(set(self.placement.inputs) - set(names))
        if unknown:
            raise InputError(
                f"input_devices: method {self.method!r} has no input {unknown[0]!r}; its inputs are {', '.join(names)}"
            )
        devices = [self.placement.inputs.get(name, CPU) for name in names]
        placeholders = user_input_names(self.program)
        for spec in self.program.graph_signature.output_specs:
            if spec.kind is OutputKind.USER_INPUT_MUTATION and spec.target in placeholders:
                position = placeholders.index(spec.target)
                if not devices[position].is_cpu:
                    raise ExportError(
                        f"method {self.method!r} writes into input {names[position]!r}, which is to be on "
                        f"{devices[position]}: only inputs on the CPU can be written; return a new value"
                    )
        return dict(zip(placeholders, devices, strict=True))

    def place(self, module: GraphModule, is_top: bool) -> None:
        for node in list(module.graph.nodes):
            if node.op == "placeholder" and is_top:
                self._tag(node, self.inputs.get(node.name, CPU))
            elif node.op == "output":
                self._place_results(node, is_top)
            elif node.op == "call_function":
                self._place_call(module, node)
        module.recompile()

    def _tag(self, node: Node, device: Device) -> None:
        if not device.is_cpu:
            if not isinstance(node.meta.get("val"), torch.Tensor):
                raise InputError(f"input_devices: {node.name!r} of method {self.method!r} is no tensor")
            node.meta[DEVICE] = device

    def _place_call(self, module: GraphModule, node: Node) -> None:
        if node.target in (TO_DEVICE, operator.getitem, torch.ops.aten.sym_size.int):
            return  # takes results apart, or reads no data
        device = CPU
        takes: frozenset[int] = frozenset()
        if node.target is executorch_call_delegate:
            takes = self._taken_types(module, node)
            device = self._delegate_device(module, node)
            for made in (node, *node.users) if not device.is_cpu else ():  # the users take its results apart
                made.meta[DEVICE] = device
        what = self._label(module, node)
        for source in node.all_input_nodes:
            if source.op != "get_attr" and source.meta.get(DEVICE, CPU).type not in takes:
                self._supply(node, source, device, what)

    def _taken_types(self, module: GraphModule, node: Node) -> frozenset[int]:
        """Types of the devices, besides its own, on which a delegate takes its arguments as they are."""
        lowered = getattr(module, str(node.args[0].target))
        for spec in lowered.compile_specs:
            if spec.key == TAKES_DEVICES:
                try:
                    return frozenset(int(Device(name).type) for name in bytes(spec.value).decode().split(",") if name)
                except (DeviceError, UnicodeDecodeError) as error:
                    raise ExportError(f"delegate {lowered.backend_id!r} has bad {TAKES_DEVICES}: {error}") from error
        return frozenset()

    def _can_be_made_on(self, source: Node, device: Device, user: Node) -> bool:
        """Whether the delegate that makes a value can make it on a device, where all that use it take it."""
        module = source.graph.owning_module
        makers = [source.args[0]] if source.target is operator.getitem else []
        others = [other for other in source.users if other is not user]
        return all(
            node.target is executorch_call_delegate and int(device.type) in self._taken_types(module, node)
            for node in (*makers, *others)
        ) and bool(makers)

    def _delegate_device(self, module: GraphModule, node: Node) -> Device:
        lowered = getattr(module, str(node.args[0].target))
        for spec in lowered.compile_specs:
            if spec.key == TARGET_DEVICE:
                try:
                    return Device(bytes(spec.value).decode().strip().lower())
                except (DeviceError, UnicodeDecodeError) as error:
                    raise ExportError(f"delegate {lowered.backend_id!r} has a bad target_device: {error}") from error
        return CPU

    def _place_results(self, node: Node, is_top: bool) -> None:
        results = list(node.args[0]) if isinstance(node.args[0], Sequence) else [node.args[0]]
        hidden = self._hidden_results() if is_top else len(results)
        wanted = self.placement.output_devices(len(results) - hidden, self.method) if is_top else []
        for place, (source, device) in enumerate(zip(results, [CPU] * hidden + wanted, strict=True)):
            position = place - hidden if is_top else place
            is_tensor = isinstance(source, Node) and isinstance(source.meta.get("val"), torch.Tensor)
            if not device.is_cpu and not is_tensor:
                what = f"output {position} of method {self.method!r}"
                raise InputError(f"output_devices: {what} is no tensor: give devices by position")
            if isinstance(source, Node):
                results[place] = self._on(node, source, device, f"output {position}")
        self._rename_results(node, results, is_top)

    def _hidden_results(self) -> int:
        """Results that are mutations, which come first."""
        return sum(spec.kind is not OutputKind.USER_OUTPUT for spec in self.program.graph_signature.output_specs)

    def _rename_results(self, node: Node, results: list[Any], is_top: bool) -> None:
        if is_top:
            for spec, result in zip(self.program.graph_signature.output_specs, results, strict=True):
                if isinstance(result, Node) and hasattr(spec.arg, "name"):
                    spec.arg.name = result.name
        node.args = (tuple(results), *node.args[1:])

    def _supply(self, user: Node, source: Node, device: Device, what: str) -> None:
        found = self._on(user, source, device, what)
        if found is not source:
            user.replace_input_with(source, found)

    def _on(self, user: Node, source: Node, device: Device, what: str) -> Node:
        """The value of `source` on a device: itself, what it was copied from, or a copy."""
        here = source.meta.get(DEVICE, CPU)
        if not isinstance(source.meta.get("val"), torch.Tensor):
            return source
        if here == device and (here.is_cpu or user.op != "output" or source.op != "placeholder"):
            return source  # but what an input on a device becomes is a copy: a result is never the caller's memory
        if source.target is TO_DEVICE and source.args[0].meta.get(DEVICE, CPU) == device:
            return source.args[0]
        if user.op == "output" and here.is_cpu and self._can_be_made_on(source, device, user):
            source.meta[DEVICE] = device
            return source
        if (source, device) not in self.copies:
            self._refuse(source, here, device, what)
            self.copies[source, device] = self._copy(user, source, device)
        return self.copies[source, device]

    def _refuse(self, source: Node, here: Device, device: Device, what: str) -> None:
        if self.placement.copies == "error":
            raise ExportError(
                f"method {self.method!r}: value {source.name!r}{_origin(source)} is on {here}, {what} needs it on "
                f"{device}: a copy between devices is needed. Move the operator to a delegate of that device, or "
                "export with copies='insert'"
            )

    def _copy(self, user: Node, source: Node, device: Device) -> Node:
        with source.graph.inserting_before(user):  # users are met in order: this one comes first
            made = source.graph.call_function(TO_DEVICE, (source, int(device.type), device.index))
        made.meta["val"] = source.meta["val"]
        if not device.is_cpu:
            made.meta[DEVICE] = device
        return made

    def _label(self, module: GraphModule, node: Node) -> str:
        if node.target is executorch_call_delegate:
            backend = getattr(module, str(node.args[0].target)).backend_id
            return f"delegate {backend!r} ({node.name})"
        schema = getattr(node.target, "_schema", None)
        operator_name = schema.name if schema is not None else str(node.target)
        return f"operator {operator_name} ({node.name}), which runs on the CPU,"


def _origin(source: Node) -> str:
    """Which delegate made a value, for messages: its node's name says nothing."""
    if source.target is not operator.getitem or source.args[0].target is not executorch_call_delegate:
        return ""
    lowered = getattr(source.graph.owning_module, str(source.args[0].args[0].target))
    return f" (result {source.args[1]} of delegate {lowered.backend_id!r})"
