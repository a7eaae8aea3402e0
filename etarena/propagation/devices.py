"""Where parameters, inputs and operators of a model are: the device map, and devices that torch has no name for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from ..allocator.errors import DeviceError, InputError, InputTypeError
from ..device.device import Device, DeviceType

__all__ = ["DeviceMap", "DeviceNames"]

_OTHER_NAMES = {"mps": DeviceType.METAL, "hip": DeviceType.ROCM, "xpu": DeviceType.ONEAPI}
# The one device type other than the CPU's that every build of torch can index and slice fake tensors on. It has no
# kernels of its own, so that composite operators are decomposed.
STAND_IN = "lazy"


class DeviceNames:
    """Devices as torch knows them inside a fake run, and back.

    The CPU is itself, and so is CUDA where this machine has it. Any other device is a numbered stand-in, whose
    operators have torch's rules for a device that has no kernels of its own.
    """

    def __init__(self) -> None:
        self._stand_ins: list[Device] = []

    def to_torch(self, device: Device) -> torch.device:
        """The torch device that stands for `device`."""
        if device.type == DeviceType.CPU:
            return torch.device("cpu")
        if device.type == DeviceType.CUDA and torch.cuda.is_available():
            return torch.device("cuda", device.index)
        if device not in self._stand_ins:
            self._stand_ins.append(device)
        return torch.device(STAND_IN, self._stand_ins.index(device))

    def from_torch(self, device: torch.device) -> Device:
        """The device that a tensor of a fake run is on.

        Raises
        ------
        DeviceError
            It is none on which tensors have memory, such as ``meta``.
        """
        if device.type == STAND_IN and (device.index or 0) < len(self._stand_ins):
            return self._stand_ins[device.index or 0]
        if device.type in _OTHER_NAMES:
            return Device(_OTHER_NAMES[device.type], device.index or 0)
        return Device(device)

    def replaced(self, device: torch.device) -> torch.device:
        """The device that stands for one that code of a model names."""
        known = device.type in ("cpu", "meta", STAND_IN)
        return device if known else self.to_torch(self.from_torch(device))


class DeviceMap:
    """Which device each part of a model is on.

    Parameters
    ----------
    entries : mapping or device, optional
        Device by name: of a submodule (with all below it, ``""`` is the whole model), of a parameter or buffer, or of
        an input. The longest name that fits decides. A single device stands for ``{"": device}``.

    Raises
    ------
    InputTypeError
        It is no mapping of names.
    DeviceError
        One of the devices does not exist; names the entry.
    """

    def __init__(self, entries: object = None) -> None:
        if entries is None:
            entries = {}
        elif not isinstance(entries, Mapping):
            entries = {"": entries}
        self.entries: dict[str, Device] = {}
        for name, device in entries.items():
            if not isinstance(name, str):
                raise InputTypeError(f"device_map: names are text, such as 'layers.0', got {name!r}")
            try:
                self.entries[name] = Device(device)
            except DeviceError as error:
                raise DeviceError(f"device_map: entry {name!r}: {error}") from error

    def check(self, modules: Iterable[str], tensors: Iterable[str], inputs: Iterable[str]) -> None:
        """Refuse entries that name nothing.

        Raises
        ------
        InputError
            Names the entry and what is close to it.
        """
        parts, arguments = list(modules), list(inputs)
        known = {"", *parts, *tensors, *arguments}
        for name in self.entries:
            if name not in known:
                near = [part for part in parts if "." not in part and part]
                raise InputError(
                    f"device_map: {name!r} is no submodule, parameter, buffer or input of the model; submodules at the "
                    f"top are {', '.join(near[:12]) or 'none'}, inputs {', '.join(arguments) or 'none'}"
                )

    def of_tensor(self, name: str) -> Device | None:
        """Device of a parameter or buffer by its full name; None where the map says nothing."""
        while True:
            if name in self.entries:
                return self.entries[name]
            if not name:
                return None
            name = name.rpartition(".")[0]

    def of_input(self, name: str) -> Device | None:
        """Device of an input that has an entry of its own."""
        return self.entries.get(name)
