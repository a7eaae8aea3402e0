"""Runs operators of the Vulkan delegate: one call on its own, or a module that is exported."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from executorch.exir._serialize._program import deserialize_pte_binary

import etarena
from etarena import vulkan
from etarena.delegates.vulkan.bound import padded
from etarena.delegates.vulkan.operators.call import BoundTensor, Call, Dispatch
from etarena.delegates.vulkan.operators.registry import all_operators
from etarena.delegates.vulkan.shader_files import shader_code

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

DTYPES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.bool: "bool",
}
ROOM = 16 << 20  # bytes for the tensors of a call
GAP, POISON = 64, 0x5A  # bytes around each, which nothing may change
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2}


class OperatorRunner:
    """An emitter whose tensors lie one behind another in a buffer, with poison between them.

    Parameters
    ----------
    device
        To run on.
    limits
        The device's limits that operators are to see otherwise than they are.
    """

    def __init__(self, device: vulkan.Device, limits: Mapping[str, Any] | None = None) -> None:
        self.device, self.limits = device, {**device.info.limits, **(limits or {})}
        self._buffer = device.buffer(ROOM, host_visible=True)
        address = self._buffer.memory.map() + self._buffer.memory_offset
        self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * ROOM).from_address(address))
        self._commands = device.commands()
        self._forget()

    def close(self) -> None:
        """Give back what the device lent."""
        self._bytes = np.empty(0, np.uint8)  # the memory goes with the buffer
        self._commands.close()
        self._buffer.close()

    def _forget(self) -> None:
        self.dispatches: list[Dispatch] = []
        self._places: list[tuple[int, int]] = []
        self._roots: dict[int, int] = {}
        self._constants: dict[int, np.ndarray[Any, Any]] = {}
        self._top = 0

    # What operators call.

    def emit(self, dispatch: Dispatch) -> None:
        """Keep it for later."""
        assert len(dispatch.push) <= 128
        self.dispatches.append(dispatch)

    def temporary(self, dtype: str, shape: tuple[int, ...]) -> BoundTensor:
        """Make a tensor of poison."""
        made = BoundTensor(len(self._places), dtype, shape)
        start = self._top + GAP
        self._places.append((start, padded(made.nbytes)))
        self._top = -(-(start + padded(made.nbytes)) // GAP) * GAP
        assert self._top + GAP <= ROOM
        self._bytes[start - GAP : self._top + GAP] = POISON
        return made

    def alias(self, out: BoundTensor, source: BoundTensor) -> None:
        """Read one where the other is."""
        assert out.nbytes == source.nbytes
        self._roots[out.number] = self._root(source.number)

    def is_constant(self, tensor: BoundTensor) -> bool:
        """As the test says."""
        return tensor.number in self._constants

    def array(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        """Its elements."""
        return self._constants[tensor.number]

    def packed(
        self, tensor: BoundTensor, how: str, pack: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    ) -> BoundTensor:
        """Pack at once."""
        array = np.ascontiguousarray(pack(self.array(tensor)))
        made = self.temporary(str(array.dtype), array.shape)
        self._write(made, array)
        return made

    # What tests call.

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        results: Sequence[torch.Tensor],
        constants: Collection[str] = (),
    ) -> list[torch.Tensor]:
        """Run one call of an operator.

        Parameters
        ----------
        name
            As in PyTorch.
        arguments
            By the schema's names.
        results
            Tensors of the shapes and dtypes of the results.
        constants
            Names of arguments that are known before.
        """
        self._forget()
        found = all_operators()[name]
        if found.check is not None:
            reason = found.check({**arguments, "out": results[0] if len(results) == 1 else tuple(results)})
            assert reason is None, reason
        bound = {key: self._bind(entry, key in constants) for key, entry in arguments.items()}
        outs = [self.temporary(DTYPES[result.dtype], tuple(result.shape)) for result in results]
        found.emit(Call(name, bound, outs, self))
        self._run()
        self._check_poison()
        return [self._read(out, result.dtype) for out, result in zip(outs, results, strict=True)]

    def compare(self, name: str, *args: Any, constants: Collection[str] = (), **keywords: Any) -> list[torch.Tensor]:
        """Run one call, compare it with PyTorch's result, and return what was computed."""
        expected = overload(name)(*args, **keywords)
        expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
        found = self.call(name, arguments_by_name(name, args, keywords), expected, constants)
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(ours, theirs)
        return found

    def _bind(self, entry: Any, constant: bool) -> Any:
        if isinstance(entry, list | tuple):
            return [self._bind(inner, constant) for inner in entry]
        if not isinstance(entry, torch.Tensor):
            return entry
        made = self.temporary(DTYPES[entry.dtype], tuple(entry.shape))
        array = entry.detach().contiguous().numpy()
        self._write(made, array)
        if constant:
            self._constants[made.number] = array
        return made

    def _root(self, number: int) -> int:
        return self._roots.get(number, number)

    def _write(self, tensor: BoundTensor, array: np.ndarray[Any, Any]) -> None:
        start, _ = self._places[tensor.number]
        self._bytes[start : start + tensor.nbytes] = np.frombuffer(array.tobytes(), np.uint8)

    def _read(self, tensor: BoundTensor, dtype: torch.dtype) -> torch.Tensor:
        start, _ = self._places[self._root(tensor.number)]
        content = bytearray(self._bytes[start : start + tensor.nbytes].tobytes())
        return (torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)).reshape(
            tensor.shape
        )

    def _run(self) -> None:
        if not self.dispatches:
            return
        self._commands.begin()
        for dispatch in self.dispatches:
            tensors = (*dispatch.reads, *dispatch.writes)
            pipeline = self.device.pipeline(
                dispatch.shader,
                shader_code(dispatch.shader),
                "b" * len(tensors),
                len(dispatch.push),
                dict(dispatch.constants),
            )
            places = [(self._buffer, *self._places[self._root(tensor.number)]) for tensor in tensors]
            self._commands.dispatch(pipeline, places, dispatch.push, dispatch.groups)
            self._commands.barrier()
        self._commands.host_barrier()
        self._commands.end()
        self.device.submit(self._commands).wait()

    def _check_poison(self) -> None:
        end = 0
        for start, nbytes in [*self._places, (self._top + GAP, 0)]:
            assert (self._bytes[end:start] == POISON).all() or end == 0, "a shader wrote outside its tensors"
            end = start + nbytes


def overload(name: str) -> Any:
    """The operator of a name such as ``"aten.add.Tensor"``."""
    found = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def arguments_by_name(name: str, args: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the delegate's graph has them: all that the schema names."""
    found = dict(keywords)
    for place, argument in enumerate(overload(name)._schema.arguments):
        if place < len(args) and not argument.kwarg_only:
            found[argument.name] = args[place]
        elif argument.name not in found:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Equal ints and bools; floats as close as the delegate promises, relative to the largest near zero."""
    tolerance = TOLERANCE.get(theirs.dtype, 0.0)
    finite = theirs[theirs.isfinite()] if theirs.is_floating_point() else theirs.new_zeros(0)
    scale = min(float(finite.abs().max()), 1.0) if finite.numel() else 1.0
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * 0.1 * scale, equal_nan=True)


def compare_exported(
    module: torch.nn.Module,
    examples: tuple[Any, ...],
    others: Sequence[tuple[Any, ...]] = (),
    *,
    dynamic: Any = None,
    operators: Collection[str] = (),
) -> bytes:
    """Export a module to Vulkan and compare what it computes with PyTorch.

    Parameters
    ----------
    examples
        Inputs to export with.
    others
        More inputs to run.
    dynamic
        Dynamic shapes, as for `torch.export.export`.
    operators
        Operators that the delegate has to have taken; by default none may be left to the CPU.

    Returns
    -------
    bytes
        The program, in which delegates name their operators.
    """
    model = etarena.export(module.eval(), examples, dynamic_shapes=dynamic, partitioners=[etarena.VulkanPartitioner()])
    left = [name for name in instructions_left(model) if not operators or name in operators]
    assert not left, f"{left} did not go to Vulkan"
    method = etarena.load(model.buffer).method()
    for inputs in [examples, *others]:
        with torch.no_grad():
            expected = module(*inputs)
        results = method(*inputs)
        given, wanted = ([x] if isinstance(x, torch.Tensor) else x for x in (results, expected))
        for ours, theirs in zip(given, wanted, strict=True):
            assert_close(ours, theirs)
    return model.buffer


def instructions_left(model: Any) -> list[str]:
    """Operators of a program that run on the CPU, without those of sizes."""
    (plan,) = deserialize_pte_binary(model.buffer).program.execution_plan
    names = [f"{operator.name.replace('::', '.')}.{operator.overload or 'default'}" for operator in plan.operators]
    return [name for name in names if not name.startswith(("aten.sym_", "executorch_prim."))]
