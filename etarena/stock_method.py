"""Methods of stock ``.pte`` files: planned ahead of time by ExecuTorch, run as they are, with checked inputs.

ExecuTorch takes any input with the right number of elements and reads it row by row; here shape and layout are checked
or converted first, so that a wrong input is an error and not a wrong result.
"""

from __future__ import annotations

import ctypes
import math
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ._runtime import NativeMethod
from ._tensors import torch_view
from .allocator.errors import DeviceError, Error, InputError, InputTypeError, ShapeError
from .delegates.python_table import hold_leaked
from .device.copies import Copy, allow_copy
from .device.dtypes import ITEM_BYTES, dtype_name
from .device.etensor import ETensor
from .devices.stock import StockDevices
from .memory_plan import RunStats
from .state import States

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from .loaded import LoadedProgram

__all__ = ["StockMethod"]

_STATIC = 0  # TensorShapeDynamism::STATIC


class _TensorInput(NamedTuple):
    dtype: int
    limit: tuple[int, ...]  # the sizes in the file: exact when static, upper bounds otherwise
    order: tuple[int, ...]
    static: bool
    planned: bool  # has memory of the file's plan, which the runtime copies into


class StockMethod:
    """A method without a plan section; got from `Program.method`.

    Attributes
    ----------
    name
        Name of the method.
    section
        None: a stock file has no plan section.
    last_run
        Figures of the last run; its arena bytes are what the file reserves, whatever the input.
    """

    section = None

    def __init__(self, program: LoadedProgram, name: str) -> None:
        self.name = name
        self.arena = program.arena
        self._program = program
        self.last_run: RunStats | None = None
        self._turn = threading.Lock()
        self._runner: int | None = None  # thread that is in a run
        self._load()

    def _load(self) -> None:
        planned, self._backends, _ = self._program.native.describe(self.name)
        self._planned_bytes = sum(nbytes for nbytes, _, _ in planned)
        self._devices = StockDevices(planned)
        blocks: list[Any] = []
        for nbytes, kind, index in planned:
            if kind:
                blocks.append(self._devices.block(nbytes, kind, index))
                continue
            blocks.append(self.arena.alloc(max(nbytes, 1)))
            # Zeroed like ExecuTorch's own runtime does: a buffer that the file mutates starts at zero.
            ctypes.memset(blocks[-1].address, 0, blocks[-1].nbytes)
        self._native = NativeMethod(self._program.native, self.name, blocks)
        self._inputs = [self._describe_input(value) for value in self._native.inputs]
        tensors = [self._native.tensor(value) for value in self._native.outputs]
        self._room = [None if found is None or found[4] else found[5] for found in tensors]

    def _describe_input(self, value: int) -> _TensorInput | None:
        found = self._native.tensor(value)
        if found is None:
            return None
        dtype, sizes, order, dynamism, address, _ = found
        return _TensorInput(dtype, sizes, order, dynamism == _STATIC, address != 0)

    @property
    def state(self) -> States:
        """No states: what a stock file mutates lies in its planned memory."""
        return States(self.arena, {})

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the method on positional inputs."""
        return self.execute(inputs)

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the method.

        Parameters
        ----------
        inputs
            One tensor (or number) for each input, at most as large as the file's upper bound.

        Returns
        -------
        list
            The outputs: torch tensors of their own memory, or numbers.

        Raises
        ------
        InputError, InputTypeError, ShapeError
            If an input does not fit; the message names it.
        RuntimeFailure
            If an operator or delegate fails. The method can be called again.
        """
        with self._turns():
            return self._execute(inputs)

    @contextmanager
    def _turns(self) -> Iterator[None]:
        """Callers wait for each other; a delegate that calls the method it belongs to would wait for ever."""
        if self._runner == threading.get_ident():
            raise Error(f"method {self.name!r} is running in this thread: a delegate of it cannot use it")
        with self._turn:
            self._runner = threading.get_ident()
            try:
                yield
            finally:
                self._runner = None

    def _execute(self, inputs: Sequence[Any]) -> list[Any]:
        if not isinstance(inputs, (list, tuple)):
            raise InputTypeError(f"inputs must be a list or tuple, got {type(inputs).__name__}")
        if len(inputs) != len(self._inputs):
            raise InputError(f"method {self.name!r} takes {len(self._inputs)} inputs, got {len(inputs)}")
        if self._native.poisoned:
            self._load()
        copies: list[Copy] = []
        self._devices.begin(inputs)
        held = [self._set_input(position, value, copies) for position, value in enumerate(inputs)]
        rooms = [self._set_output(position) for position in range(len(self._room))]
        try:
            self._native.execute()
        except BaseException:
            hold_leaked((self._native, rooms, held))
            raise
        del held
        for delegate in self._native.delegates:
            for instruction, argument, nbytes, why in delegate.take_copies():
                cause = (
                    f"argument {argument} of delegate {delegate.backend!r} at instruction {instruction} does not meet "
                    f"the delegate's requirement {why}"
                )
                copies.append(Copy(cause, nbytes))
        results = [self._result(position, room, copies) for position, room in enumerate(rooms)]
        output_bytes = sum(room.nbytes for room in rooms if room is not None)
        scratch = tuple(sorted(set(self._backends)))
        self.last_run = RunStats(
            self._planned_bytes, self._planned_bytes, output_bytes, 0, 0, scratch, 0, True, 1, tuple(copies)
        )
        return results

    def _set_input(self, position: int, value: Any, copies: list[Copy]) -> torch.Tensor | ETensor | None:
        expected = self._inputs[position]
        if expected is None:
            if not isinstance(value, (int, float, bool)):
                raise InputTypeError(f"input {position} must be a number, got {type(value).__name__}")
            self._native.set_number_input(position, value)
            return None
        device = self._devices.device_of(self._native, self._native.inputs[position])
        if device is not None:
            if isinstance(value, ETensor):
                self._check_shape(position, value.shape, expected)
            if expected.planned:
                raise DeviceError(
                    f"input {position} is on {device} and the file has planned memory for it, which the runtime would "
                    "fill from the CPU: export with MemoryPlanningPass(alloc_graph_input=False)"
                )
            return self._devices.set_input(self._native, position, value, device, expected.dtype)
        tensor, dtype = torch_view(value, str(position), copies)
        if dtype != expected.dtype:
            raise InputTypeError(f"input {position} has dtype {tensor.dtype}, expected {dtype_name(expected.dtype)}")
        self._check_shape(position, tuple(tensor.shape), expected)
        permuted = tensor.detach().permute(expected.order)
        if not permuted.is_contiguous():
            copies.append(allow_copy(f"input {position} has another layout than the file's", tensor.nbytes))
            permuted = permuted.contiguous()
        self._native.set_tensor_input(position, dtype, tuple(tensor.shape), expected.order, permuted.data_ptr())
        return permuted

    def _check_shape(self, position: int, shape: tuple[int, ...], expected: _TensorInput) -> None:
        if len(shape) != len(expected.limit):
            raise InputError(f"input {position} has shape {shape}, expected rank {len(expected.limit)}")
        for dim, (size, limit) in enumerate(zip(shape, expected.limit, strict=True)):
            if size != limit if expected.static else size > limit:
                relation = "must be" if expected.static else "was exported with at most"
                raise ShapeError(
                    f"dimension {dim} of input {position} is {size}, but {relation} {limit}: "
                    "export the model with etarena.export to run it at any size"
                )

    def _set_output(self, position: int) -> Any:
        nbytes = self._room[position]
        if nbytes is None:
            return None
        device = self._devices.device_of(self._native, self._native.outputs[position])
        if device is not None:
            return self._devices.room(self._native, position, nbytes, device)
        block = self.arena.alloc(max(nbytes, 1))
        self._native.set_output(position, block.address, nbytes)
        return block

    def _result(self, position: int, room: Any, copies: list[Copy]) -> Any:
        import torch

        value = self._native.outputs[position]
        found = self._native.tensor(value)
        if found is None:
            return self._native.number(value)
        device = self._devices.device_of(self._native, value)
        if device is not None:
            return self._devices.result(self._native, position, room, device, copies)
        dtype, sizes, order, _, address, nbytes = found
        if room is None or address != room.address:
            copies.append(allow_copy(f"output {position} lies in memory planned ahead of time", nbytes))
            room = self.arena.alloc(max(nbytes, 1))
            ctypes.memmove(room.address, address, nbytes)
        permuted = [sizes[dim] for dim in order]
        count = math.prod(sizes)
        kind = getattr(torch, dtype_name(dtype))
        flat = torch.frombuffer(room, dtype=kind, count=count) if count else torch.empty(0, dtype=kind)
        assert nbytes == count * ITEM_BYTES[dtype]
        return flat.view(permuted).permute(sorted(range(len(order)), key=order.__getitem__))

    def plan_for(self, shapes: object) -> NoReturn:
        """Stock methods are planned ahead of time: raises Error."""
        raise Error(
            f"method {self.name!r} was planned ahead of time: its plan does not depend on the shapes {shapes!r}"
        )

    def trim(self) -> None:
        """Load the method anew, so that delegates give up memory that grew, and return unused pages of the arena."""
        with self._turns():
            self._load()
        self.arena.trim()
