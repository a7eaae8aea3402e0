"""Devices: a type and an index."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NoReturn

from ..allocator.errors import DeviceError

__all__ = ["CUSTOM_TYPES", "MAX_INDEX", "Device", "DeviceType"]

CUSTOM_TYPES = range(64, 128)  # types of delegates' authors; ExecuTorch keeps a type in a signed byte
MAX_INDEX = 127  # ExecuTorch keeps an index in a signed byte


class DeviceType(IntEnum):
    """Kinds of device: ExecuTorch's number where it has one, otherwise DLPack's. 64 to 127 are anybody's."""

    CPU = 0
    CUDA = 1
    OPENCL = 4
    VULKAN = 7
    METAL = 8
    VPI = 9
    ROCM = 10
    EXT_DEV = 12
    CUDA_MANAGED = 13
    ONEAPI = 14
    WEBGPU = 15
    HEXAGON = 16
    MAIA = 17
    TRAINIUM = 18


_NAMES = {kind.name.lower(): int(kind) for kind in DeviceType}
_TEXT = re.compile(r"([a-z_]+|custom(\d+))(?::(\d+))?")


class Device:
    """One device; immutable and hashable.

    Parameters
    ----------
    type
        A `DeviceType`, its number, its name (``"vulkan"``), a name with an index (``"vulkan:1"``), a `torch.device`
        or a `Device`. Types of authors are the numbers 64 to 127, or ``"custom64"`` to ``"custom127"``.
    index
        Which of them, 0 to 127; 0 by default.

    Raises
    ------
    DeviceError
        No such type, or an index out of range.
    """

    __slots__ = ("_index", "_type")
    _type: int
    _index: int

    def __init__(self, type: object, index: int | None = None) -> None:
        number, given = _read(type)
        if index is not None and given is not None and given != index:
            raise DeviceError(f"device {type!r} has index {given}, but index={index} was given too")
        chosen = index if index is not None else given or 0
        if isinstance(chosen, bool) or not hasattr(chosen, "__index__") or not 0 <= chosen <= MAX_INDEX:
            raise DeviceError(f"index {chosen!r} of a {_name(number)} device is no number from 0 to {MAX_INDEX}")
        object.__setattr__(self, "_type", number)
        object.__setattr__(self, "_index", chosen.__index__())

    @property
    def type(self) -> DeviceType | int:
        """What kind of device; a plain number for types of authors."""
        return self._type if self._type in CUSTOM_TYPES else DeviceType(self._type)

    @property
    def index(self) -> int:
        """Which of its kind."""
        return self._index

    @property
    def is_cpu(self) -> bool:
        """Whether its memory is the CPU's."""
        return self._type == DeviceType.CPU

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Device cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Device cannot be changed")

    def __reduce__(self) -> tuple[type[Device], tuple[int, int]]:
        return Device, (self._type, self._index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self._type == other._type and self._index == other._index

    def __hash__(self) -> int:
        return hash((self._type, self._index))

    def __str__(self) -> str:
        return _name(self._type) if self.is_cpu and self._index == 0 else f"{_name(self._type)}:{self._index}"

    def __repr__(self) -> str:
        return f"Device({_name(self._type)!r}, {self._index})"


def _name(number: int) -> str:
    return f"custom{number}" if number in CUSTOM_TYPES else DeviceType(number).name.lower()


def _read(type: object) -> tuple[int, int | None]:
    """Type and, where it is told, index of whatever names a device."""
    if isinstance(type, Device):
        return type._type, type._index
    if isinstance(type, int) and not isinstance(type, bool):
        if type in CUSTOM_TYPES or type in _NAMES.values():
            return int(type), None
        raise DeviceError(f"{type} is no device type; known are {_known()}")
    text = type if isinstance(type, str) else _torch_device_text(type)
    found = _TEXT.fullmatch(text)
    number = _NAMES.get(found[1]) if found else None
    if found and found[2]:
        number = int(found[2]) if int(found[2]) in CUSTOM_TYPES else None
    if found is None or number is None:
        raise DeviceError(f"{text!r} names no device; known are {_known()}, each with ':index' if it is not the first")
    return number, int(found[3]) if found[3] else None


def _torch_device_text(device: object) -> str:
    if not isinstance(getattr(device, "type", None), str) or not hasattr(device, "index"):
        raise DeviceError(f"a {type(device).__name__} names no device; give a name such as 'cpu' or 'vulkan:0'")
    return str(device)


def _known() -> str:
    return ", ".join([*_NAMES, "custom64 to custom127"])
