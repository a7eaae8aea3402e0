"""The arguments of `export` that say on which devices inputs and outputs are, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..allocator.errors import InputError, InputTypeError
from ..device.device import Device
from ..per_method import check_methods
from .placement import CPU, Placement

__all__ = ["placements"]


def placements(
    methods: Mapping[str, Any], input_devices: object, output_devices: object, copies: str, *, several: bool
) -> dict[str, Placement]:
    """What the user asks for, for each method.

    Parameters
    ----------
    methods : mapping of str
        The methods by name.
    input_devices : mapping, optional
        Device of an input by its name; with several methods, one such mapping by the name of each method.
    output_devices : device, sequence or mapping, optional
        One device for all outputs, one for each (None: the CPU), or devices by position; with several methods by the
        name of each.
    copies : {"insert", "error"}
        Whether copies between devices may be put into the program.
    several : bool
        Whether the user named the methods.

    Raises
    ------
    InputError, InputTypeError, DeviceError
        If an argument has a value or type that makes no sense.
    """
    if copies not in ("insert", "error"):
        raise InputError(f"copies: expected 'insert' or 'error', got {copies!r}")
    if not several:
        (name,) = methods
        return {name: Placement(_inputs(input_devices), _outputs(output_devices), copies)}
    by_input = _by_method("input_devices", input_devices, methods)
    by_output = _by_method("output_devices", output_devices, methods)
    return {name: Placement(_inputs(by_input.get(name)), _outputs(by_output.get(name)), copies) for name in methods}


def _by_method(argument: str, given: object, methods: Mapping[str, Any]) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputTypeError(f"{argument}: with several methods, a mapping of their names, got {type(given).__name__}")
    check_methods(argument, given, methods)
    return given


def _inputs(given: object) -> dict[str, Device]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputTypeError(f"input_devices: a mapping of input names to devices, got {type(given).__name__}")
    return {name: Device(device) for name, device in given.items()}


def _outputs(given: object) -> Mapping[int, Device] | Device:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for position in given:
            if isinstance(position, bool) or not isinstance(position, int):
                raise InputTypeError(f"output_devices: positions of outputs are ints, got {position!r}")
        return {position: Device(device) for position, device in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return {position: CPU if device is None else Device(device) for position, device in enumerate(given)}
    return Device(given)
