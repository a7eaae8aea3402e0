"""The backend at run time: one object for each delegate of a loaded method."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ...allocator.errors import Error
from ...allocator.sizes import SizeProgram
from ...device.device import DeviceType
from ...device.etensor import ETensor
from ..delegate import READ, WRITE, Delegate, Requirement
from .arena_run import ArenaRun
from .bound import PADDING, BoundGraph
from .device_run import run_in_device_memory
from .dtypes import CODES
from .graph import Graph
from .image_arguments import ImageArguments
from .last_call import LastCall
from .operators.registry import all_operators
from .session import current_session
from .weights import Weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...device.vulkan.arena_import import ArenaImport
    from .arena_run import Recordings
    from .image_arguments import Rooms

__all__ = ["VulkanDelegate"]

MOST_SHAPES = 64  # kept at a time, the least recently used goes first
TAKES = 1 << int(DeviceType.CPU) | 1 << int(DeviceType.VULKAN)


class VulkanDelegate(LastCall, Delegate):
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
        self._unread = self.graph.unread_inputs()
        self._imported: ArenaImport | None = None  # kept for the recordings to come
        self._rooms: Rooms = WeakValueDictionary()
        self._bound: OrderedDict[tuple[Any, ...], tuple[BoundGraph, Recordings]] = OrderedDict()

    def requirements(self, shapes: Sequence[Any]) -> list[Requirement]:
        """Arguments lie in memory that the device sees: planned memory, or the device's own."""
        access = [READ] * self.n_inputs + [WRITE] * (len(shapes) - self.n_inputs)
        alignment = max(PADDING, self.limits["minStorageBufferOffsetAlignment"])
        return [
            Requirement(alignment=alignment, size_multiple=PADDING, devices=TAKES, access=one, planned=True)
            if self.session.shares_arena and i not in self._unread  # others are copied anyway, or not read
            else Requirement(devices=TAKES, access=one)
            for i, one in enumerate(access)
        ]

    def bind(self, shapes: Sequence[Any]) -> tuple[BoundGraph, Recordings]:
        """The graph for inputs of these shapes, from before if they were there before."""
        key = tuple(tuple(shape) if isinstance(shape, tuple) else () for shape in shapes)  # numbers decide nothing
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
        bound, _ = self.bind(shapes[: self.n_inputs])
        return bound.scratch_bytes if self.session.shares_arena else 0

    def output_shapes(self, shapes: Sequence[Any]) -> list[tuple[int, ...]]:
        """Shapes of the outputs, from those of the inputs."""
        return self.bind(shapes[: self.n_inputs])[0].output_shapes

    def execute(self, args: Sequence[Any], scratch: memoryview) -> None:
        """Submit the recorded commands and wait."""
        can_know = self.take_known()
        self._check_types(args)
        bound, recordings = self.bind([arg.shape if isinstance(arg, ETensor) else arg for arg in args[: self.n_inputs]])
        for i, (arg, shape) in enumerate(zip(args[self.n_inputs :], bound.output_shapes, strict=True)):
            if arg.shape != shape:
                raise Error(f"output {i} of a Vulkan delegate has the shape {arg.shape}, the graph makes {shape}")
        if not bound.dispatches:
            return
        args = [None if i in self._unread else arg for i, arg in enumerate(args)]
        images = ImageArguments(self.device, args, self.n_inputs, self._rooms)
        run = ArenaRun(self.session, bound, args, scratch, images)
        if run.is_possible:
            commands = run.commands(recordings)
            self._imported = run.imported or self._imported
            if can_know and run.arena is not None:
                self.remember(self.device, commands, run.arena)
            self.device.run(commands, None)
        else:
            run_in_device_memory(self.session, bound, args, self.n_inputs, images, recordings)
        images.done()

    def close(self) -> None:
        """Give back the recorded commands and the constants."""
        self.forget()
        self._bound.clear()
        self._imported = None
        self.weights.close()

    def _check_types(self, args: Sequence[Any]) -> None:
        """The blob may be another model's: shaders must not take one type for another."""
        wanted = (*self.graph.inputs, *self.graph.outputs)
        if len(args) != len(wanted):
            raise Error(f"a Vulkan delegate of {len(wanted)} arguments is given {len(args)}")
        for i, (place, arg) in enumerate(zip(wanted, args, strict=True)):
            if (place is not None) != isinstance(arg, ETensor):
                raise Error(f"argument {i} of a Vulkan delegate is {'no ' if place is not None else 'a '}tensor")
            if place is not None and CODES[self.graph.values[place].dtype] != arg.dtype_code:
                raise Error(
                    f"argument {i} of a Vulkan delegate is {arg.dtype}, it was exported for "
                    f"{self.graph.values[place].dtype}"
                )
