"""Single calls of the Vulkan delegate's operators, run without an export: each tensor in a buffer of its own."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from etarena.delegates.vulkan.operators.call import BoundTensor, Call, Dispatch
from etarena.delegates.vulkan.operators.registry import all_operators
from etarena.delegates.vulkan.shader_files import shader_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from etarena.device.vulkan.device import Device
    from etarena.device.vulkan.memory import Buffer

PADDING = 16  # bytes


class CallRunner:
    """Emits the dispatches of one call, runs them, and gives the results.

    Parameters
    ----------
    device
        Where to run.
    limits
        The device's limits that operators are to see otherwise than they are.
    """

    def __init__(self, device: Device, limits: Mapping[str, Any] | None = None) -> None:
        self.device = device
        self.limits = {**device.info.limits, **(limits or {})}
        self.arrays: dict[int, np.ndarray[Any, Any]] = {}
        self.buffers: dict[int, Buffer] = {}
        self.constants: set[int] = set()
        self.dispatches: list[Dispatch] = []

    def tensor(self, array: np.ndarray[Any, Any], *, constant: bool = False) -> BoundTensor:
        """Bring an array to the device."""
        array = np.ascontiguousarray(array)
        made = BoundTensor(len(self.arrays), str(array.dtype), array.shape)
        self.arrays[made.number] = array
        buffer = self.device.buffer(-(-max(array.nbytes, 1) // PADDING) * PADDING, host_visible=True)
        ctypes.memmove(buffer.memory.map() + buffer.memory_offset, array.ctypes.data, array.nbytes)
        self.buffers[made.number] = buffer
        if constant:
            self.constants.add(made.number)
        return made

    def emit(self, dispatch: Dispatch) -> None:
        """Add a dispatch."""
        self.dispatches.append(dispatch)

    def temporary(self, dtype: str, shape: tuple[int, ...]) -> BoundTensor:
        """Make a tensor."""
        return self.tensor(np.zeros(shape, dtype))

    def packed(
        self, tensor: BoundTensor, how: str, pack: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    ) -> BoundTensor:
        """Rearrange a constant."""
        assert tensor.number in self.constants, f"{how} of what is no constant"
        return self.tensor(pack(self.arrays[tensor.number]), constant=True)

    def is_constant(self, tensor: BoundTensor) -> bool:
        """Whether it was given as one."""
        return tensor.number in self.constants

    def array(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        """The elements of a constant."""
        return self.arrays[tensor.number]

    def alias(self, out: BoundTensor, source: BoundTensor) -> None:
        """Not needed by what is tested so."""
        raise NotImplementedError

    def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        outs: Iterable[torch.Tensor],
        constants: Iterable[str] = (),
    ) -> list[torch.Tensor]:
        """Run an operator.

        Parameters
        ----------
        name
            Such as ``"aten.mm.default"``.
        arguments
            By the schema's names; tensors are contiguous.
        outs
            Tensors of the shapes and dtypes of the results.
        constants
            Names of arguments that are known when the model is loaded.
        """
        self.dispatches = []
        bound = {
            key: self.tensor(value.numpy(), constant=key in set(constants))
            if isinstance(value, torch.Tensor)
            else value
            for key, value in arguments.items()
        }
        # What is not written stays this, which no test expects.
        results = [self.tensor(np.full(tuple(out.shape), 77, dtype=out.numpy().dtype)) for out in outs]
        all_operators()[name].emit(Call(name, bound, results, self))
        self._submit()
        return [torch.from_numpy(self._read(result)) for result in results]

    def close(self) -> None:
        """Let go of the buffers."""
        for buffer in self.buffers.values():
            buffer.close()

    def _submit(self) -> None:
        if not self.dispatches:
            return
        commands = self.device.commands()
        commands.begin()
        for dispatch in self.dispatches:
            tensors = (*dispatch.reads, *dispatch.writes)
            resources = [(self.buffers[t.number], 0, self.buffers[t.number].nbytes) for t in tensors]
            pipeline = self.device.pipeline(
                dispatch.shader,
                shader_code(dispatch.shader),
                "b" * len(tensors),
                len(dispatch.push),
                dict(dispatch.constants),
            )
            commands.dispatch(pipeline, resources, dispatch.push, dispatch.groups)
            commands.barrier()
        commands.host_barrier()
        commands.end()
        self.device.submit(commands).wait(60)
        commands.close()

    def _read(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        memory, offset = self.buffers[tensor.number].memory, self.buffers[tensor.number].memory_offset
        source = (ctypes.c_char * max(tensor.nbytes, 1)).from_address(memory.map() + offset)
        return np.frombuffer(source, tensor.dtype, tensor.numel).reshape(tensor.shape).copy()
