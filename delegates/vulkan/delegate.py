"""The backend at run time: one object for each delegate of a loaded method."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ...allocator.arena_core import arena_at
from ...allocator.errors import DeviceError, Error
from ...allocator.sizes import SizeProgram
from ...device.copies import allow_copy
from ...device.device import DeviceType
from ...device.vulkan.transfers import Span
from ..delegate import READ, WRITE, Delegate, Requirement
from .bound import BoundGraph, padded
from .dtypes import dtype_of_code
from .graph import BACKEND_ID, Graph
from .operators.registry import all_operators
from .recording import Spot, record
from .session import current_session
from .weights import Weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...device.etensor import ETensor
    from ...device.vulkan.commands import Commands

__all__ = ["VulkanDelegate"]

MOST_SHAPES = 64  # kept at a time, the least recently used goes first
MOST_RECORDINGS = 16  # kept for each shape
ROBUST = "robustBufferAccess"
TAKES = 1 << int(DeviceType.CPU) | 1 << int(DeviceType.VULKAN)


class VulkanDelegate(Delegate):
    """A graph on the Vulkan device.

    Inner tensors are scratch of the arena where the device can work there, and memory of the device otherwise. One
    command buffer is recorded for each set of shapes and memory, and submitted again and again.
    """

    def init(self, blob: memoryview, specs: dict[str, bytes]) -> None:
        """Read the graph, and find a device.

        Raises
        ------
        Error
            The file is damaged, or has an operator of a newer etarena.
        MissingFeatureError
            There is no Vulkan on this machine.
        """
        self.graph = Graph.decode(blob)
        known = all_operators()
        for operation in self.graph.operations:
            if operation.name not in known:
                raise Error(f"this etarena has no {operation.name} on Vulkan: export the model with this version")
        self.program = SizeProgram(self.graph.n_symbols, self.graph.code)
        self.session = current_session()
        self.device = self.session.device
        self.limits = self.device.info.limits
        self.weights = Weights(self.device, self.graph)
        self.n_inputs = len(self.graph.inputs)
        self._bound: OrderedDict[tuple[Any, ...], tuple[BoundGraph, OrderedDict[Any, Commands]]] = OrderedDict()

    def requirements(self, shapes: Sequence[Any]) -> list[Requirement]:
        """Arguments lie in memory that the device sees: planned memory, or the device's own."""
        shared = self.session.shares_arena
        alignment = max(64, self.limits["minStorageBufferOffsetAlignment"])
        return [
            Requirement(
                alignment=alignment,
                size_multiple=16,
                devices=TAKES,
                access=READ if i < self.n_inputs else WRITE,
                planned=shared,
            )
            for i in range(len(shapes))
        ]

    def bind(self, shapes: Sequence[Any]) -> tuple[BoundGraph, OrderedDict[Any, Commands]]:
        """The graph at these shapes, from before if they were there before."""
        key = tuple(shapes)
        found = self._bound.get(key)
        if found is None:
            found = BoundGraph(self.graph, self.program, self.weights, self.limits, key), OrderedDict()
            self._bound[key] = found
            while len(self._bound) > MOST_SHAPES:
                self._bound.popitem(last=False)
        else:
            self._bound.move_to_end(key)
        return found

    def scratch_bytes(self, shapes: Sequence[Any]) -> int:
        """What the inner tensors need, unless they live in the device's memory."""
        bound, _ = self.bind(self._inputs_of(shapes))
        return bound.scratch_bytes if self.session.shares_arena else 0

    def output_shapes(self, shapes: Sequence[Any]) -> list[tuple[int, ...]]:
        """Shapes of the outputs, from those of the inputs."""
        return self.bind(self._inputs_of(shapes))[0].output_shapes

    def execute(self, args: Sequence[Any], scratch: memoryview) -> None:
        """Submit the recorded commands and wait."""
        self._check_types(args)
        bound, recordings = self.bind([_shape(arg) for arg in args[: self.n_inputs]])
        if not bound.dispatches:
            return
        where = self._places(args, scratch, bound)
        if where is None:
            self._run_in_device_memory(bound, args)
            return
        key, arena_import, base, spots = where
        commands = recordings.get(key)
        if commands is not None and all(guard.is_there() for guard in commands.guards):
            self._submit(commands)
            return
        commands = self.device.commands()
        commands.begin(once=False)
        commands.barrier()

        def inner(offset: int, nbytes: int) -> Spot:
            span = arena_import.range(base + offset, nbytes)
            return span.buffer, span.offset

        record(commands, self.device, bound, inner, [spot() if spot is not None else None for spot in spots])
        commands.host_barrier()
        commands.end()
        recordings[key] = commands
        while len(recordings) > MOST_RECORDINGS:
            recordings.popitem(last=False)
        self._submit(commands)

    def close(self) -> None:
        """Give back the recorded commands and the constants."""
        self._bound.clear()
        self.weights.close()

    def _submit(self, commands: Commands) -> None:
        self.device.submit(commands).wait(None)

    def _inputs_of(self, shapes: Sequence[Any]) -> list[Any]:
        return list(shapes[: self.n_inputs])

    def _check_types(self, args: Sequence[Any]) -> None:
        if len(args) != self.n_inputs + len(self.graph.outputs):
            raise Error(f"a Vulkan delegate of {self.n_inputs + len(self.graph.outputs)} arguments is given {len(args)}")
        for i, place in enumerate((*self.graph.inputs, *self.graph.outputs)):
            if place is None:
                continue
            value = self.graph.values[place]
            if dtype_of_code(args[i].dtype_code) != value.dtype:
                raise Error(f"argument {i} of a Vulkan delegate is {args[i].dtype}, it was exported for {value.dtype}")

    def _places(self, args: Sequence[Any], scratch: memoryview, bound: BoundGraph) -> Any:
        """Key of a recording, the arena's import, the scratch's offset there, and how to find each argument.

        None if something is not where the device can work.
        """
        if not self.session.shares_arena:
            return None
        base, arena = 0, None
        if bound.scratch_bytes:
            address = _address(scratch)
            arena = arena_at(address)
            if arena is None:
                return None
            base = address - arena.base
        spots: list[Any] = []
        key: list[Any] = [id(arena), base]
        imported = None if arena is None else self.session.imported(arena)
        for arg in args:
            if not hasattr(arg, "resource") or arg.nbytes == 0:
                spots.append(None)
                key.append(None)
                continue
            if not arg.device.is_cpu:
                spots.append(lambda tensor=arg: self._of_resource(tensor))
                key.append((id(arg.resource.owner), arg.resource.handle, arg.resource.offset))
                continue
            here = arena_at(arg.address) if arena is None else arena
            if here is None:
                return None
            if imported is None:
                arena, imported = here, self.session.imported(here)
                key[0] = id(arena)
            offset = arg.address - here.base
            if not 0 <= offset < here.stats.activation_committed:
                return None
            spots.append(lambda o=offset, n=padded(arg.nbytes): self._of_arena(imported, o, n))
            key.append(offset)
        return tuple(key), imported, base, spots

    def _of_arena(self, imported: Any, offset: int, nbytes: int) -> Spot:
        span = imported.range(offset, nbytes)
        return span.buffer, span.offset

    def _of_resource(self, tensor: ETensor) -> Spot:
        place = self.device.transfers.place_of_resource(tensor.resource)
        if not isinstance(place, Span):
            raise DeviceError("an image is given where a Vulkan delegate wants a buffer")
        room = place.buffer.nbytes - place.offset
        if room < padded(tensor.nbytes) and ROBUST not in self.device.enabled_features:
            raise DeviceError(
                f"a tensor of {tensor.nbytes} bytes ends {room} bytes into its VkBuffer: shaders read vectors of 16 "
                f"bytes. Make the buffer larger, or enable the feature {ROBUST}"
            )
        return place.buffer, place.offset

    def _run_in_device_memory(self, bound: BoundGraph, args: Sequence[Any]) -> None:
        """Inner tensors and copies of the CPU's arguments in memory of the device."""
        memory = self.session.memory
        with memory.lock:
            offsets, total = self._layout(args, bound.scratch_bytes)
            staging = memory.staging(total - bound.scratch_bytes)
            buffer = memory.buffer(total)
            mapped = staging.memory.map() + staging.memory_offset
            commands = self.device.commands()
            commands.begin()
            spots: list[Spot | None] = []
            for i, (arg, offset) in enumerate(zip(args, offsets, strict=True)):
                if offset is None:
                    spots.append(None if not hasattr(arg, "resource") or arg.nbytes == 0 else self._of_resource(arg))
                    continue
                spots.append((buffer, offset))
                if i < self.n_inputs:
                    allow_copy(f"input {i} of a delegate of {BACKEND_ID} goes to the device's memory", arg.nbytes)
                    ctypes.memmove(mapped + offset - bound.scratch_bytes, arg.address, arg.nbytes)
                    commands.copy_buffer(staging, buffer, offset - bound.scratch_bytes, offset, padded(arg.nbytes))
            staging.memory.flush()
            commands.barrier()
            record(commands, self.device, bound, lambda offset, _: (buffer, offset), spots)
            for i in range(self.n_inputs, len(args)):
                if offsets[i] is not None:
                    allow_copy(f"output {i} of a delegate of {BACKEND_ID} comes from the device", args[i].nbytes)
                    commands.copy_buffer(
                        buffer, staging, offsets[i], offsets[i] - bound.scratch_bytes, padded(args[i].nbytes)
                    )
            commands.host_barrier()
            commands.end()
            self._submit(commands)
            staging.memory.invalidate()
            for i in range(self.n_inputs, len(args)):
                if offsets[i] is not None:
                    ctypes.memmove(args[i].address, mapped + offsets[i] - bound.scratch_bytes, args[i].nbytes)

    def _layout(self, args: Sequence[Any], start: int) -> tuple[list[Any], int]:
        """An offset behind the inner tensors for each argument that is on the CPU, and the bytes of all."""
        step = max(256, self.limits["minStorageBufferOffsetAlignment"])
        offsets: list[Any] = []
        total = start
        for arg in args:
            if not hasattr(arg, "resource") or arg.nbytes == 0 or not arg.device.is_cpu:
                offsets.append(None)
                continue
            total = -(-total // step) * step
            offsets.append(total)
            total += padded(arg.nbytes)
        return offsets, total


def _shape(arg: Any) -> Any:
    return arg.shape if hasattr(arg, "shape") else arg


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
