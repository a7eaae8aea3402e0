"""Constants of a delegate on the device, as they are or packed for a shader."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from ...allocator.errors import Error
from .bound import padded
from .dtypes import ITEM_BYTES
from .operators.call import BoundTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...device.vulkan.device import Device
    from ...device.vulkan.memory import Buffer
    from .graph import Graph

__all__ = ["Weights"]

NUMPY = {name: np.dtype(name) for name in ITEM_BYTES}


class Weights:
    """Buffers of constants, made when they are first needed and kept until the delegate is closed.

    Parameters
    ----------
    device
        Where they go.
    graph
        Whose constants they are.
    """

    def __init__(self, device: Device, graph: Graph) -> None:
        self._device, self._graph = device, graph
        self._buffers: dict[int, Buffer] = {}
        self._packed: dict[tuple[int, str], BoundTensor] = {}
        self._next = -1  # packed constants count downwards: values and temporaries count upwards

    def is_constant(self, tensor: BoundTensor) -> bool:
        """Whether a tensor is one of the graph's constants, or packed from one."""
        number = tensor.number
        return number < 0 or (number < len(self._graph.values) and self._graph.values[number].data is not None)

    def array(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        """The elements of a constant of the graph, read-only."""
        data = self._graph.values[tensor.number].data if tensor.number >= 0 else None
        if data is None:
            raise Error(f"tensor {tensor.number} of a Vulkan delegate is no constant")
        offset, nbytes = data
        found = np.frombuffer(self._graph.constants[offset : offset + nbytes], NUMPY[tensor.dtype])
        if found.size != tensor.numel:
            raise Error(
                f"constant {tensor.number} of a Vulkan delegate has {nbytes} bytes for the shape {tensor.shape}"
            )
        found.flags.writeable = False
        return found.reshape(tensor.shape)

    def packed(
        self, tensor: BoundTensor, how: str, pack: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    ) -> BoundTensor:
        """A constant rearranged; see `Call.packed`."""
        key = tensor.number, how
        if key not in self._packed:
            array = np.ascontiguousarray(pack(self.array(tensor)))
            made = BoundTensor(self._next, str(array.dtype), array.shape)
            self._buffers[made.number] = self._upload(array)
            self._next -= 1
            self._packed[key] = made
        return self._packed[key]

    def buffer(self, tensor: BoundTensor) -> Buffer:
        """Where a constant lies."""
        found = self._buffers.get(tensor.number)
        if found is None:
            found = self._buffers[tensor.number] = self._upload(self.array(tensor))
        return found

    def close(self) -> None:
        """Let go of all buffers; recordings that use them must be gone."""
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()
        self._packed.clear()

    def _upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        nbytes = padded(array.nbytes)
        limit = self._device.info.limits["maxStorageBufferRange"]
        if nbytes > limit:
            raise Error(f"a constant of {nbytes} bytes is larger than the {limit} bytes that shaders can see")
        direct = self._device.info.unified
        staged = self._device.buffer(nbytes, host_visible=True)
        ctypes.memmove(staged.memory.map() + staged.memory_offset, array.ctypes.data, array.nbytes)
        staged.memory.flush()
        if direct:
            return staged
        made = self._device.buffer(nbytes)
        commands = self._device.commands()
        commands.begin()
        commands.copy_buffer(staged, made)
        commands.end()
        self._device.run(commands, None)
        return made
