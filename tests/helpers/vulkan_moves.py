"""Runs an operator of the Vulkan delegate on its own."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import etarena.delegates.vulkan as package
from etarena import vulkan
from etarena.delegates.vulkan.operators.call import BoundTensor, Call, Dispatch
from etarena.delegates.vulkan.operators.registry import all_operators

NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.bool: "bool",
}
SPIRV = Path(package.__file__).parent / "shaders" / "spirv"


class Runner:
    """An emitter that keeps each tensor in a buffer of its own."""

    def __init__(self, device: vulkan.Device) -> None:
        self.device = device
        self.limits = device.info.limits
        self.dispatches: list[Dispatch] = []
        self.buffers: list[vulkan.Buffer] = []
        self.roots: list[int] = []

    def tensor(self, value: torch.Tensor, read: bool = True) -> BoundTensor:
        dense = value.detach().contiguous()
        made = self.temporary(NAMES[value.dtype], tuple(value.shape))
        if read and dense.numel():
            self.write(made, dense.reshape(-1).view(torch.uint8).numpy().tobytes())
        return made

    def address(self, tensor: BoundTensor) -> int:
        buffer = self.buffers[self.root(tensor.number)]
        return buffer.memory.map() + buffer.memory_offset

    def write(self, tensor: BoundTensor, content: bytes) -> None:
        ctypes.memmove(self.address(tensor), content, len(content))

    def root(self, number: int) -> int:
        while self.roots[number] != number:
            number = self.roots[number]
        return number

    def temporary(self, dtype: str, shape: tuple[int, ...]) -> BoundTensor:
        made = BoundTensor(len(self.buffers), dtype, shape)
        self.roots.append(len(self.buffers))
        nbytes = max(-(-made.nbytes // 16) * 16, 16)
        buffer = self.device.buffer(nbytes, host_visible=True)
        self.buffers.append(buffer)
        ctypes.memset(self.address(made), 0x5A, nbytes)
        return made

    def emit(self, dispatch: Dispatch) -> None:
        self.dispatches.append(dispatch)

    def alias(self, out: BoundTensor, source: BoundTensor) -> None:
        assert out.nbytes == source.nbytes
        self.roots[out.number] = source.number

    def is_constant(self, tensor: BoundTensor) -> bool:
        return False

    def packed(self, *_: Any) -> BoundTensor:
        raise AssertionError

    def array(self, *_: Any) -> np.ndarray[Any, Any]:
        raise AssertionError

    def run(self) -> None:
        commands = self.device.commands()
        commands.begin()
        for dispatch in self.dispatches:
            tensors = (*dispatch.reads, *dispatch.writes)
            pipeline = self.device.pipeline(
                dispatch.shader,
                (SPIRV / f"{dispatch.shader}.spv").read_bytes(),
                "b" * len(tensors),
                len(dispatch.push),
                dict(dispatch.constants),
            )
            assert len(dispatch.push) <= 128
            places = [self.buffers[self.root(tensor.number)] for tensor in tensors]
            commands.dispatch(
                pipeline, [(buffer, 0, buffer.nbytes) for buffer in places], dispatch.push, dispatch.groups
            )
            commands.barrier()
        commands.host_barrier()
        commands.end()
        self.device.submit(commands).wait()

    def read(self, tensor: BoundTensor, like: torch.Tensor) -> torch.Tensor:
        nbytes = tensor.nbytes
        content = ctypes.string_at(self.address(tensor), nbytes)
        padding = ctypes.string_at(self.address(tensor) + nbytes, -nbytes % 16)
        assert padding == b"\x5a" * len(padding) or self.root(tensor.number) != tensor.number
        if not nbytes:
            return torch.empty(tensor.shape, dtype=like.dtype)
        return torch.frombuffer(bytearray(content), dtype=like.dtype).reshape(tensor.shape)


def overload(name: str) -> Any:
    namespace, operator, kind = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), operator), kind)


def arguments_by_name(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    found = dict(kwargs)
    for place, argument in enumerate(overload(name)._schema.arguments):
        if place < len(args) and not argument.kwarg_only:
            found[argument.name] = args[place]
        elif argument.name not in found:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def run_operator(
    device: vulkan.Device, name: str, *args: Any, **kwargs: Any
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Results of the delegate and those of PyTorch."""
    expected = overload(name)(*args, **kwargs)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    runner = Runner(device)

    def bound(entry: Any) -> Any:
        if isinstance(entry, torch.Tensor):
            return runner.tensor(entry)
        return [bound(inner) for inner in entry] if isinstance(entry, list | tuple) else entry

    known = all_operators()[name]
    values = arguments_by_name(name, args, kwargs)
    if known.check is not None:
        reason = known.check({**values, "out": expected[0] if len(expected) == 1 else tuple(expected)})
        assert reason is None, reason
    outs = [runner.tensor(result, read=False) for result in expected]
    known.emit(Call(name, {key: bound(entry) for key, entry in values.items()}, outs, runner))
    runner.run()
    return [runner.read(out, result) for out, result in zip(outs, expected, strict=True)], expected
