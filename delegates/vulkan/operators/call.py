"""What an operator's function is given: tensors and numbers of known sizes, and a place to emit dispatches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..dtypes import ITEM_BYTES, SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

__all__ = ["BoundTensor", "Call", "Dispatch", "Emitter", "contiguous_strides", "groups_1d"]


@dataclass(frozen=True, slots=True, eq=False)
class BoundTensor:
    """A dense tensor of known sizes, row-major.

    Attributes
    ----------
    number
        Which one it is.
    dtype
        Such as ``"float32"``.
    shape
        Sizes, outermost first.
    """

    number: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel * ITEM_BYTES[self.dtype]

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return contiguous_strides(self.shape)

    @property
    def short(self) -> str:
        """The dtype in names of shaders: ``"f32"``."""
        return SHORT[self.dtype]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One dispatch of a shader. Tensors are bound in the order `reads`, `writes`.

    Attributes
    ----------
    replaceable
        Of `reads`: each invocation reads of them the very bytes that it writes: the result can take their place.
    apart
        It writes no byte that the other dispatches of its operator write.
    """

    shader: str
    reads: tuple[BoundTensor, ...]
    writes: tuple[BoundTensor, ...]
    push: bytes
    groups: tuple[int, int, int]
    constants: tuple[tuple[int, int | float], ...]
    replaceable: tuple[BoundTensor, ...] = ()
    apart: bool = False


class Emitter(Protocol):
    """What collects the dispatches of a graph."""

    @property
    def limits(self) -> Mapping[str, int]:
        """The device's, by Vulkan's names."""

    def emit(self, dispatch: Dispatch) -> None:
        """Add a dispatch."""

    def temporary(self, dtype: str, shape: tuple[int, ...]) -> BoundTensor:
        """Make a tensor that lives while dispatches use it."""

    def packed(
        self, tensor: BoundTensor, how: str, pack: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    ) -> BoundTensor:
        """Make a constant from a constant, once."""

    def alias(self, out: BoundTensor, source: BoundTensor) -> None:
        """Let `out` have the bytes of `source`."""

    def is_constant(self, tensor: BoundTensor) -> bool:
        """Whether its bytes are known before anything runs."""

    def array(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        """The bytes of a constant."""


class Call:
    """One call of an operator.

    Parameters
    ----------
    name
        The operator.
    arguments
        By the schema's names: `BoundTensor`, int, float, bool, str, None, or a list of these.
    outs
        The results.
    emitter
        Where dispatches go.
    """

    def __init__(self, name: str, arguments: dict[str, Any], outs: Sequence[BoundTensor], emitter: Emitter) -> None:
        self.name, self.arguments, self.outs = name, arguments, tuple(outs)
        self._emitter = emitter

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or `default` where the operator has none of this name."""
        return self.arguments.get(name, default)

    @property
    def out(self) -> BoundTensor:
        """The first result."""
        return self.outs[0]

    @property
    def limits(self) -> Mapping[str, int]:
        """The device's, by Vulkan's names."""
        return self._emitter.limits

    def dispatch(
        self,
        shader: str,
        reads: Sequence[BoundTensor],
        writes: Sequence[BoundTensor],
        push: bytes = b"",
        groups: tuple[int, int, int] = (1, 1, 1),
        constants: Mapping[int, int | float] | None = None,
        *,
        replaceable: Sequence[BoundTensor] = (),
        apart: bool = False,
    ) -> None:
        """Run a shader.

        Parameters
        ----------
        shader
            Name of the compiled file, without its suffix.
        reads, writes
            Storage buffers at the bindings 0, 1, ...
        push
            Push constants; at most 128 bytes.
        groups
            How many workgroups; nothing runs if one is zero.
        constants
            Specialization constants by their ids.
        replaceable, apart
            As `Dispatch` says.
        """
        if 0 in groups:
            return
        given = tuple(sorted((constants or {}).items()))
        self._emitter.emit(
            Dispatch(shader, tuple(reads), tuple(writes), push, groups, given, tuple(replaceable), apart)
        )

    def temporary(self, dtype: str, shape: Sequence[int]) -> BoundTensor:
        """Make a tensor that lives from the first to the last dispatch that uses it."""
        return self._emitter.temporary(dtype, tuple(shape))

    def packed(
        self, tensor: BoundTensor, how: str, pack: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    ) -> BoundTensor:
        """Rearrange a constant, once for all shapes.

        Parameters
        ----------
        tensor
            A constant: `is_constant` says so.
        how
            Name of the arrangement; the same name is not packed again.
        pack
            From the constant as an array to what shaders read.
        """
        return self._emitter.packed(tensor, how, pack)

    def alias(self, out: BoundTensor, source: BoundTensor) -> None:
        """Let a result be the same bytes as another tensor of as many bytes."""
        self._emitter.alias(out, source)

    def is_constant(self, tensor: BoundTensor) -> bool:
        """Whether a tensor's bytes are known before anything runs."""
        return self._emitter.is_constant(tensor)

    def array(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        """The elements of a constant, read-only."""
        return self._emitter.array(tensor)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def groups_1d(count: int, per_group: int, most: int = 65535) -> tuple[int, int, int]:
    """Workgroups for so many invocations or more, as rows of at most `most` (the least that Vulkan guarantees).

    A shader finds its place by ``(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * per_group + local``.
    """
    groups = -(-count // per_group)
    rows = -(-groups // most)
    return (-(-groups // rows) if rows else 0, rows, 1) if groups else (0, 0, 0)
