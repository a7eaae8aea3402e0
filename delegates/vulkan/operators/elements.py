"""Functions of single elements: how operands are broadcast, read and computed with. Shared by families of operators."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .call import BoundTensor, Call, contiguous_strides, groups_1d

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "FLOAT",
    "INT",
    "TAIL",
    "TYPE",
    "Operand",
    "apply",
    "bits_of",
    "common_kind",
    "fits",
    "generate",
    "is_float",
    "low_rank",
    "numbers_fit",
    "tail",
]

Operand: TypeAlias = BoundTensor | int | float

# As in shaders/elements.glsl.
TYPE = {"float32": 0, "float16": 1, "int32": 2, "int64": 3, "uint8": 4, "int8": 5, "bool": 6}
FLOAT, INT = 0, 1
TAIL = 90  # id of the specialization constant

# As in shaders/broadcast.glsl.
WHOLE, NUMBER, ONE, ROWS, SPLAT, STRIDED = range(6)
RANK, FIRST_MODE = 80, 81
MOST_RANK = 6

PER_GROUP = 64
INT32 = (-(1 << 31), (1 << 31) - 1)


def is_float(operand: Operand) -> bool:
    """Whether an operand is of floating point, a Python number too."""
    if isinstance(operand, BoundTensor):
        return operand.dtype in ("float32", "float16")
    return isinstance(operand, float)


def common_kind(*operands: Operand) -> int:
    """What to compute with: FLOAT if any operand is one, or the result, which may be among them."""
    return FLOAT if any(is_float(operand) for operand in operands) else INT


def bits_of(number: float, kind: int) -> int:
    """A number as shaders have it: the bits of a float, or of an int, the nearest there is."""
    if kind == FLOAT:
        with np.errstate(over="ignore"):
            return int(np.float32(number).view(np.uint32))
    return int(min(max(int(number), INT32[0]), INT32[1])) & 0xFFFFFFFF


def tail(count: int) -> dict[int, int]:
    """The specialization constant that says whether four do not divide a number of elements."""
    return {TAIL: int(count % 4 != 0)}


@dataclass(frozen=True)
class Broadcast:
    """Sizes of a result with dimensions merged where all operands allow it, and each operand's strides and mode."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    modes: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], operands: Sequence[Operand]) -> Broadcast:
        """Find how operands are read; numbers have strides of zero."""
        rank = len(shape)
        rows = [_strides(operand, rank) for operand in operands]
        sizes: list[int] = []
        merged: list[list[int]] = [[] for _ in operands]
        for dim in range(rank):
            if shape[dim] == 1:
                continue
            here = [row[dim] for row in rows]
            if sizes and all(outer[-1] == step * shape[dim] for outer, step in zip(merged, here, strict=True)):
                sizes[-1] *= shape[dim]
                for outer, step in zip(merged, here, strict=True):
                    outer[-1] = step
            else:
                sizes.append(shape[dim])
                for outer, step in zip(merged, here, strict=True):
                    outer.append(step)
        modes = tuple(_mode(operand, sizes, row) for operand, row in zip(operands, merged, strict=True))
        return cls(tuple(sizes), tuple(map(tuple, merged)), modes)


def _strides(operand: Operand, rank: int) -> list[int]:
    """By the dimensions of the result: zero where the operand has one element for all."""
    if not isinstance(operand, BoundTensor):
        return [0] * rank
    own = [step if size != 1 else 0 for size, step in zip(operand.shape, operand.strides, strict=True)]
    return [0] * (rank - len(own)) + own


def _mode(operand: Operand, sizes: list[int], strides: list[int]) -> int:
    if not isinstance(operand, BoundTensor):
        return NUMBER
    if not any(strides):
        return ONE
    if tuple(strides) == contiguous_strides(sizes):
        return WHOLE
    if sizes[-1] % 4 == 0 and strides[-1] == 0:
        return SPLAT
    if sizes[-1] % 4 == 0 and strides[-1] == 1 and not any(step % 4 for step in strides[:-1]):
        return ROWS
    return STRIDED


def apply(
    call: Call,
    shader: str,
    operation: int,
    operands: Sequence[Operand],
    out: BoundTensor,
    *,
    kind: int | None = None,
    number: float = 0,
    more: Mapping[int, int | float] | None = None,
) -> None:
    """Emit a function of two or three operands, of which one at least is a tensor.

    Parameters
    ----------
    shader
        ``"binary"`` or ``"ternary"``.
    operation
        Which function.
    operands
        Broadcast to the shape of `out`.
    kind
        What to compute with; by default what `common_kind` says of operands and result.
    number
        A parameter of the function.
    more
        Specialization constants of the shader.
    """
    if kind is None:
        kind = common_kind(*operands, out)
    plan = Broadcast.of(out.shape, operands)
    stand_in = next(operand for operand in operands if isinstance(operand, BoundTensor))
    tensors = [operand if isinstance(operand, BoundTensor) else stand_in for operand in operands]
    numbers = [0 if isinstance(operand, BoundTensor) else bits_of(operand, kind) for operand in operands]
    words = [out.numel, *numbers, bits_of(number, kind), *_six(plan.sizes, 1)]
    for strides in plan.strides:
        words += _six(strides, 0)
    constants: dict[int, int | float] = {0: operation, 1: kind, RANK: max(len(plan.sizes), 1), **tail(out.numel)}
    constants |= more or {}
    constants |= {2 + i: TYPE[tensor.dtype] for i, tensor in enumerate([*tensors, out])}
    constants |= {FIRST_MODE + i: mode for i, mode in enumerate(plan.modes)}
    if not any(mode >= ROWS for mode in plan.modes):
        constants[RANK] = 1
    call.dispatch(
        shader,
        tensors,
        [out],
        struct.pack(f"<{len(words)}I", *words),
        groups_1d(-(-out.numel // 4), PER_GROUP),
        constants,
        replaceable=_replaceable(tensors, plan.modes, out),
    )


def _replaceable(tensors: Sequence[BoundTensor], modes: Sequence[int], out: BoundTensor) -> list[BoundTensor]:
    """Operands that are laid out as the result is, and are not read in another way as well."""
    elsewhere = {tensor.number for tensor, mode in zip(tensors, modes, strict=True) if mode not in (WHOLE, NUMBER)}
    return [
        tensor
        for tensor, mode in zip(tensors, modes, strict=True)
        if mode == WHOLE and tensor.number not in elsewhere and tensor.nbytes == out.nbytes
    ]


def _six(numbers: Sequence[int], filler: int) -> list[int]:
    if len(numbers) > MOST_RANK:
        raise ValueError(
            f"broadcasting over {len(numbers)} dimensions that cannot be merged; {MOST_RANK} are supported"
        )
    return [*numbers, *[filler] * (MOST_RANK - len(numbers))]


def generate(call: Call, out: BoundTensor, start: float, step: float = 0) -> None:
    """Emit numbers from `start` that go up by `step`."""
    kind = common_kind(out)
    if out.dtype == "bool":
        start = int(bool(start))
    push = struct.pack("<3I", out.numel, bits_of(start, kind), bits_of(step, kind))
    constants = {1: kind, 2: TYPE[out.dtype], **tail(out.numel)}
    call.dispatch("generate", [], [out], push, groups_1d(-(-out.numel // 4), PER_GROUP), constants)


# What operators do not support, at export.


def fits(number: Any) -> bool:
    """Whether a number of a program can be one of 32 bits."""
    return not isinstance(number, int) or INT32[0] <= number <= INT32[1]


def numbers_fit(arguments: dict[str, Any]) -> str | None:
    """Refuse whole numbers that have more than 32 bits."""
    for name, argument in arguments.items():
        if not fits(argument):
            return f"{name}={argument} has more than 32 bits"
    return None


def low_rank(arguments: dict[str, Any]) -> str | None:
    """Refuse to broadcast over more dimensions than shaders have strides for."""
    rank = arguments["out"].dim()
    if rank > MOST_RANK:
        return f"operands of {rank} dimensions; at most {MOST_RANK} are supported"
    return numbers_fit(arguments)
