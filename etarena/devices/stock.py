"""Devices in stock ``.pte`` files, as ExecuTorch annotates them: tensors there are addresses in a device's memory.

A file that plans memory on a device (``enable_non_cpu_memory_planning``) keeps the two apart: copies between them are
operators of the file, and inputs and outputs may be on the device. In any other file a device is a hint to the
delegate, whose tensors lie in memory of the CPU; those are read and written like all others.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from .._runtime import runtime_allocate, runtime_copy, runtime_free
from ..allocator.errors import ArenaFullError, DeviceError, InputError, InputTypeError
from ..device.copies import allow_copy
from ..device.device import Device
from ..device.dtypes import dtype_name
from ..device.etensor import ETensor
from ..device.kinds import ResourceKind
from ..device.registry import device_allocator, device_heap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._runtime import NativeMethod
    from ..device.copies import Copy
    from ..device.resource import Resource

__all__ = ["StockDevices"]

ALIGNMENT = 64  # bytes, of planned buffers
ADDRESSES = (ResourceKind.HOST, ResourceKind.DEVICE_POINTER)


class PlannedBlock:
    """Memory of ExecuTorch's own slot for a type of device, where the file's copies find it; freed when dropped."""

    def __init__(self, address: int, kind: int, index: int) -> None:
        self.address, self.kind, self.index = address, kind, index

    def __del__(self) -> None:
        runtime_free(self.kind, self.index, self.address)


class StockDevices:
    """The memory that a stock method has on devices.

    Parameters
    ----------
    planned
        (bytes, device type, device index) of each buffer planned ahead of time.

    Raises
    ------
    DeviceError
        If no allocator is registered for a device, or its memory has no address.
    """

    def __init__(self, planned: Sequence[tuple[int, int, int]]) -> None:
        self.is_used = any(kind for _, kind, _ in planned)
        self._given = False
        self._blocks: list[PlannedBlock] = []

    def block(self, nbytes: int, kind: int, index: int) -> tuple[int, int, int, int]:
        """Memory for one planned buffer: (address, bytes, device type, device index)."""
        device_allocator(Device(kind, index))  # which says what to do if there is none
        address = runtime_allocate(kind, index, max(nbytes, 1), ALIGNMENT)
        if address == 0:
            raise ArenaFullError(
                f"{Device(kind, index)} has no memory with an address for the {nbytes} bytes that the file plans there"
            )
        self._blocks.append(PlannedBlock(address, kind, index))
        return address, nbytes, kind, index

    def begin(self, inputs: Sequence[Any]) -> None:
        """Look at the inputs of a call: a file that plans nothing on a device may still be given tensors there."""
        self._given = any(isinstance(value, ETensor) and not value.device.is_cpu for value in inputs)

    def device_of(self, native: NativeMethod, value: int) -> Device | None:
        """Device of an input or output that is to be handed over there; None for the CPU."""
        kind, index = native.device(value)
        return Device(kind, max(index, 0)) if kind and (self.is_used or self._given) else None

    def set_input(self, native: NativeMethod, position: int, value: Any, device: Device, dtype: int) -> ETensor:
        """Hand an input on a device to the method, which reads it where it is.

        Raises
        ------
        InputTypeError, InputError, DeviceError
            If it is no tensor of that device, dtype and layout.
        """
        if not isinstance(value, ETensor):
            raise InputTypeError(
                f"input {position} is on {device}: pass an etarena.ETensor there, got {type(value).__name__}"
            )
        if value.device != device:
            raise DeviceError(f"input {position} is on {value.device}, the file wants it on {device}")
        if value.dtype_code != dtype:
            raise InputTypeError(f"input {position} has dtype {value.dtype}, expected {dtype_name(dtype)}")
        found = native.tensor(native.inputs[position])
        assert found is not None
        order = found[2]
        if value.dim_order != order or not value.is_contiguous:
            raise InputError(
                f"input {position} has strides {value.strides} on {device}, expected the dim order {order}"
            )
        native.set_tensor_input(position, dtype, value.shape, order, address_of(value.resource, device))
        return value

    def room(self, native: NativeMethod, position: int, nbytes: int, device: Device) -> Resource:
        """Memory for an output on a device that the file gives none."""
        resource = device_heap(device).allocate(max(nbytes, 1))
        native.set_output(position, address_of(resource, device), nbytes)
        return resource

    def result(
        self, native: NativeMethod, position: int, room: Resource | None, device: Device, copies: list[Copy]
    ) -> ETensor:
        """An output as a tensor on its device; what lies in planned memory is copied."""
        found = native.tensor(native.outputs[position])
        assert found is not None
        dtype, sizes, order, _, address, nbytes = found
        if room is None or address != address_of(room, device):
            copies.append(allow_copy(f"output {position} lies in memory planned ahead of time on {device}", nbytes))
            stage = (ctypes.c_char * max(nbytes, 1))()
            if not runtime_copy(int(device.type), device.index, ctypes.addressof(stage), address, nbytes, False):
                raise DeviceError(f"output {position} cannot be read from 0x{address:x} on {device}")
            room = device_heap(device).allocate(max(nbytes, 1))
            device_heap(device).write(room, 0, memoryview(stage).cast("B")[:nbytes])
        return ETensor.from_resource(room, dtype, sizes, device, dim_order=order)


def address_of(resource: Resource, device: Device) -> int:
    """Address of a resource in its device's memory."""
    if resource.kind not in ADDRESSES:
        raise DeviceError(f"ExecuTorch's own programs need memory with an address, {device} has {resource!r}")
    return resource.handle + resource.offset
