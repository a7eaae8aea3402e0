"""What a program remembers from call to call: its mutable buffers, to read, write, reset, save and restore."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .allocator.errors import InputError, InputTypeError, PlanError
from .allocator.growing import GrowingBlock
from .device.dtypes import DTYPE_NAMES, ITEM_BYTES, dtype_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy
    import torch

    from .allocator import plan
    from .allocator.arena import Arena

__all__ = ["State", "States"]


class State:
    """One mutable buffer of a loaded program; got from `States`.

    Attributes
    ----------
    name : str
        Fully qualified name of the buffer.
    dim : int or None
        The dimension in which it grows; None if its size is fixed.
    memory : GrowingBlock or Block
        Where it lies.
    """

    def __init__(self, arena: Arena, section: plan.Method, state: plan.State) -> None:
        value = section.values[state.value]
        self.name = state.name
        self.dim = state.dim if state.dim >= 0 else None
        self._arena = arena
        self._dtype = value.dtype
        self._order = tuple(value.dim_order)
        self._sizes = fixed_sizes(section, state)
        self._initial = state.initial
        self._start = state.length
        entry = ITEM_BYTES[self._dtype] * math.prod(self._sizes)
        if self.dim is None:
            self.memory: Any = arena.alloc(entry)
            self._pinned = memoryview(self.memory)  # rewinding the arena must not take a state away
        else:
            self.memory = GrowingBlock(entry, name=state.name)
        self._replace(self._initial, self._start)

    def check_same(self, section: plan.Method, state: plan.State) -> None:
        """Refuse a method that has another idea of this state; PlanError says where they differ."""
        value = section.values[state.value]
        mine = (self._dtype, self._order, self._sizes, self.dim, self._initial, self._start)
        dim = state.dim if state.dim >= 0 else None
        other = (value.dtype, tuple(value.dim_order), fixed_sizes(section, state), dim, state.initial, state.length)
        if mine != other:
            raise PlanError(f"states[{state.name!r}]: two methods disagree about its dtype, size or start value")

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes now."""
        sizes = list(self._sizes)
        if self.dim is not None:
            sizes[self.dim] = self.memory.rows
        return tuple(sizes)

    @property
    def dtype(self) -> torch.dtype:
        """Its dtype."""
        import torch

        kind: torch.dtype = getattr(torch, dtype_name(self._dtype))
        return kind

    @property
    def nbytes(self) -> int:
        """Bytes of its content now."""
        return int(self.memory.nbytes)

    @property
    def address(self) -> int:
        """Address of its content now."""
        return int(self.memory.address if self.dim is None else self.memory.start)

    def numpy(self) -> numpy.ndarray:
        """Its content as a read-only array on the memory itself: it changes as the methods run.

        An array of a cache shows the entries of now; its memory is kept for as long as the array lives.

        Raises
        ------
        InputTypeError
            If NumPy has no such dtype (bfloat16); use `tensor`.
        """
        import numpy

        try:
            kind = numpy.dtype(dtype_name(self._dtype))
        except TypeError:
            raise InputTypeError(f"state {self.name!r}: NumPy has no {dtype_name(self._dtype)}; use tensor()") from None
        with self._arena.turn():
            shape = self.shape
            flat = numpy.frombuffer(memoryview(self.memory).toreadonly(), numpy.uint8).view(kind)
        return flat.reshape([shape[d] for d in self._order]).transpose(self._inverse())

    def tensor(self) -> torch.Tensor:
        """A copy of its content."""
        import torch

        with self._arena.turn():
            shape = self.shape
            dense = torch.empty([shape[d] for d in self._order], dtype=self.dtype)
            ctypes.memmove(dense.data_ptr(), self.address, self.nbytes)
        return dense.permute(self._inverse())

    def write(self, value: Any) -> None:
        """Give it another content.

        Parameters
        ----------
        value : array-like
            Of its dtype and shape; of a growable cache any length in `dim`.

        Raises
        ------
        InputError, InputTypeError
            If the shape or dtype differs; the state is as it was.
        ArenaFullError
            If there is no memory for so many entries; the state is as it was.
        """
        content, rows = self.prepared(value)
        with self._arena.turn():
            self._reserve(rows)
            self._replace(content, rows)

    def reset(self) -> None:
        """Give it its start value, and the memory of a cache back."""
        with self._arena.turn():
            self._reset()

    def prepared(self, value: Any) -> tuple[memoryview, int]:
        """The bytes of a checked value in this state's layout, and its length."""
        from ._tensors import torch_view

        tensor, dtype = torch_view(value, f"state {self.name}", [])
        if dtype != self._dtype:
            raise InputTypeError(f"state {self.name!r} is {dtype_name(self._dtype)}, the value {tensor.dtype}")
        shape, sizes = tuple(tensor.shape), list(self._sizes)
        if self.dim is not None and len(shape) == len(sizes):
            sizes[self.dim] = shape[self.dim]
        if shape != tuple(sizes):
            expected = [("any" if d == self.dim else size) for d, size in enumerate(self._sizes)]
            raise InputError(f"state {self.name!r} has shape {expected}, the value {list(shape)}")
        dense = tensor.detach().permute(self._order).contiguous()
        flat = dense.clone() if dense.data_ptr() == tensor.data_ptr() else dense
        return memoryview(flat.reshape(-1).view(_torch().uint8).numpy()), shape[self.dim] if self.dim is not None else 0

    def _reserve(self, rows: int) -> None:
        if self.dim is not None:
            self.memory.require(rows)

    def _replace(self, content: memoryview | bytes, rows: int) -> None:
        """Write bytes (none: zeros) for which there is room."""
        if self.dim is not None:
            self.memory.replace(content, rows)
        elif len(content):
            ctypes.memmove(self.memory.address, bytes(content), self.memory.nbytes)
        else:
            ctypes.memset(self.memory.address, 0, self.memory.nbytes)

    def _reset(self) -> None:
        if self.dim is not None:
            self.memory.clear()
        self._replace(self._initial, self._start)

    def _inverse(self) -> list[int]:
        return sorted(range(len(self._order)), key=self._order.__getitem__)

    def __repr__(self) -> str:
        """Name, dtype and shape."""
        grows = f", grows in dimension {self.dim}" if self.dim is not None else ""
        return f"<State {self.name!r} {dtype_name(self._dtype)}{list(self.shape)}{grows}>"


class States(Mapping[str, State]):
    """The states of a method or program by name."""

    def __init__(self, arena: Arena, states: Mapping[str, State]) -> None:
        self._arena, self._states = arena, dict(states)

    def __getitem__(self, name: str) -> State:
        """Find one; KeyError names those there are."""
        if name not in self._states:
            raise KeyError(f"no state {name!r}; there are {', '.join(self._states) or 'none'}")
        return self._states[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._states)

    def __len__(self) -> int:
        """Count them."""
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Bytes of all contents now."""
        return sum(state.nbytes for state in self._states.values())

    def reset(self) -> None:
        """Give every state its start value."""
        with self._arena.turn():
            for state in self._states.values():
                state._reset()

    def write(self, values: Mapping[str, Any]) -> None:
        """Give several states another content: all of them, or none if one value does not fit.

        Raises
        ------
        InputError, InputTypeError, ArenaFullError
            As `State.write`; nothing has changed.
        KeyError
            If there is no state of a name.
        """
        prepared = [(self[name], *self[name].prepared(value)) for name, value in values.items()]
        with self._arena.turn():
            for state, _, rows in prepared:
                state._reserve(rows)
            for state, content, rows in prepared:
                state._replace(content, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all states into a safetensors file, which appears under its name once it is complete."""
        from .state_files import save_states

        with_names = {name: state.tensor() for name, state in self._states.items()}
        save_states(path, with_names)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restore all states from a file of `save`.

        Raises
        ------
        InputError, InputTypeError
            If the file is damaged, or its states have other names, shapes or dtypes; no state has changed.
        FileNotFoundError
            If there is no such file.
        """
        from .state_files import read_states

        self.write(read_states(path, self._states))

    def __repr__(self) -> str:
        """List the states."""
        return f"States({', '.join(map(repr, self._states.values()))})"


def fixed_sizes(section: plan.Method, state: plan.State) -> tuple[int, ...]:
    """Sizes of a state, 1 in the dimension in which it grows.

    Raises
    ------
    PlanError
        If one of them is not fixed.
    """
    value = section.values[state.value]
    if value.dtype not in DTYPE_NAMES:
        raise PlanError(f"states[{state.name!r}].value: no such ExecuTorch dtype code {value.dtype}")
    sizes = []
    for dim, register in enumerate(value.sizes):
        if dim != state.dim and register < len(section.symbols):
            raise PlanError(f"states[{state.name!r}].value: the size of a mutable buffer must be fixed")
        sizes.append(1 if dim == state.dim else section.size_code[register - len(section.symbols)].a)
    return tuple(sizes)


def _torch() -> Any:
    import torch

    return torch
