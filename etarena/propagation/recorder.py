"""Every operator that a model calls, recorded with the tensors it makes, on fake tensors or on real ones."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..allocator.size_binding import expression
from .devices import DeviceNames
from .lifetimes import Storages
from .values import Kind, PropagatedValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Recorder", "operator_name"]


def operator_name(operator: Any) -> str:
    """Name of an operator as torch prints it, e.g. ``aten.add.Tensor``."""
    return str(operator) if isinstance(operator, torch._ops.OpOverload) else str(operator.name())


@dataclass
class _Entry:
    """A value while its lifetime is not known yet."""

    value: PropagatedValue
    owner: int


class Recorder(TorchDispatchMode):
    """Sees each operator after torch's own decomposition and before its kernel; adds nothing to a run.

    Parameters
    ----------
    names : DeviceNames, optional
        How devices are called in the run.

    Attributes
    ----------
    operators : list of str
        The operators in the order of their calls; lifetimes are positions in it.
    storages : Storages
        What is held.
    """

    supports_higher_order_operators = True

    def __init__(self, names: DeviceNames | None = None) -> None:
        super().__init__()
        self.names = names or DeviceNames()
        self.operators: list[str] = []
        self.storages = Storages()
        self._entries: list[_Entry] = []
        self._counts: Counter[str] = Counter()
        self._scopes: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record one operator."""
        if func.namespace == "prim":  # asks a tensor for what it is
            return func(*args, **(kwargs or {}))
        position = self.begin(func)
        results = func(*args, **(kwargs or {}))
        self.note(func, position, results)
        return results

    def begin(self, operator: Any) -> int:
        """Note that an operator is called; gives its position."""
        position = len(self.operators)
        self.storages.sweep(position)
        self.operators.append(operator_name(operator))
        return position

    def note(self, operator: Any, position: int, results: Any) -> None:
        """Record the tensors that an operator gives."""
        tensors = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            self.add(self.fresh_name(operator), "result", tensor, position, operator_name(operator))

    def add(self, name: str, kind: Kind, tensor: torch.Tensor, position: int, operator: str = "") -> int:
        """Record a tensor; gives the number of its value."""
        number = len(self._entries)
        is_dense = tensor.layout is torch.strided
        owner = self.storages.owner(tensor) if is_dense else None
        value = PropagatedValue(
            name=name,
            kind=kind,
            shape=tuple(map(expression, tensor.shape)),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=self.names.from_torch(tensor.device),
            stride=tuple(map(expression, tensor.stride())) if is_dense else (),
            nbytes=0,
            first=position,
            last=position + 1,
            alias_of="" if owner is None else self._entries[owner].value.name,
            op=operator,
        )
        if owner is None and is_dense:
            value = replace(value, nbytes=expression(self.storages.add(tensor, number)))
        self._entries.append(_Entry(value, number if owner is None else owner))
        return number

    def resized(self, tensor: torch.Tensor) -> None:
        """Note that the storage of a tensor may have become larger."""
        owner = self.storages.owner(tensor)
        if owner is not None:
            entry = self._entries[owner]
            entry.value = replace(entry.value, nbytes=expression(self.storages.bytes_of(tensor)))

    def fresh_name(self, operator: Any) -> str:
        """A name for what an operator makes, that no value has yet."""
        bare = operator_name(operator).split(".")
        word = bare[1] if len(bare) > 1 else bare[0]
        last = re.sub(r"_\d+$", "", self.place.rpartition(".")[2])
        # A submodule or node that is called like the operator says it already.
        parts = (self.place,) if last == word.strip("_") else (self.place, word)
        return self.unique(".".join(filter(None, parts)))

    def unique(self, name: str) -> str:
        """`name`, with a number behind it where it was used before."""
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}_{self._counts[name] - 1}"

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Within the block, operators belong to this submodule, node or branch."""
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def enter(self, name: str) -> None:
        """Begin a scope."""
        self._scopes.append(name)

    def leave(self) -> None:
        """End the innermost scope."""
        if self._scopes:
            self._scopes.pop()

    @property
    def place(self) -> str:
        """The innermost scope."""
        return self._scopes[-1] if self._scopes else ""

    def name_of(self, tensor: torch.Tensor) -> str:
        """Name of the value whose storage a tensor is on; empty if it is not known."""
        owner = self.storages.owner(tensor)
        return "" if owner is None else self._entries[owner].value.name

    def finish(self) -> list[PropagatedValue]:
        """All values with their lifetimes; what is still held lives to the end."""
        end = max(len(self.operators), 1)
        self.storages.sweep(end)
        lasts = [self.storages.ends.get(number, end) for number in range(len(self._entries))]
        return [replace(entry.value, last=max(lasts[entry.owner], entry.value.first + 1)) for entry in self._entries]

    def results(self) -> Sequence[PropagatedValue]:
        """The results of operators so far."""
        return [entry.value for entry in self._entries if entry.value.kind == "result"]
