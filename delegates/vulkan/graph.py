"""What a delegate's blob holds: values with symbolic sizes, operations on them, constants.

The blob is a line of magic, the length of a JSON header, the header, and the constants at multiples of 64 bytes. All of
it is checked when it is read, because a file may come from anywhere.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from ...allocator.errors import Error, PlanError
from ...allocator.plan import Binding
from ...allocator.sizes import SizeProgram
from .dtypes import ITEM_BYTES

__all__ = ["BACKEND_ID", "Graph", "Operation", "Size", "TensorId", "Value", "leaves"]

BACKEND_ID = "EtarenaVulkan"
MAGIC = b"ETVULKAN1\n"
LINE = 64  # bytes; where constants begin
MOST_RANK = 8
LARGEST = 1 << 48  # bytes; a tensor beyond that is a mistake


@dataclass(frozen=True)
class TensorId:
    """An argument of an operation that is a value, by its place in `Graph.values`."""

    value: int


@dataclass(frozen=True)
class Size:
    """An argument of an operation that is a size, by its register of the size program."""

    register: int


@dataclass(frozen=True)
class Value:
    """A tensor: dtype, register of each size, and for a constant where its bytes are."""

    dtype: str
    sizes: tuple[int, ...]
    data: tuple[int, int] | None = None  # offset among the constants and number of bytes


@dataclass(frozen=True)
class Operation:
    """One call of an operator, named as PyTorch does, with its arguments by the schema's names."""

    name: str
    arguments: dict[str, Any]
    outputs: tuple[int, ...]


@dataclass
class Graph:
    """A delegate's graph.

    Attributes
    ----------
    values
        All tensors.
    operations
        In the order of their execution.
    inputs
        What the delegate's inputs are: a value, or None for an int.
    outputs
        Values.
    n_symbols, code, bindings
        The size program, whose first registers are the symbols, and how the inputs define these.
    constants
        Bytes.
    """

    values: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    inputs: list[int | None] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    n_symbols: int = 0
    code: list[tuple[int, int, int, int]] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    constants: Any = b""

    def unread_inputs(self) -> frozenset[int]:
        """Places of those tensors among the inputs that only tell sizes."""
        read = {leaf.value for op in self.operations for leaf in leaves(op.arguments) if isinstance(leaf, TensorId)}
        read.update(self.outputs)
        return frozenset(i for i, value in enumerate(self.inputs) if value is not None and value not in read)

    def encode(self) -> bytes:
        """Write the blob."""
        header = json.dumps(
            {
                "values": [[value.dtype, value.sizes, value.data] for value in self.values],
                "operations": [[op.name, _plain(op.arguments), op.outputs] for op in self.operations],
                "inputs": self.inputs,
                "outputs": self.outputs,
                "symbols": self.n_symbols,
                "code": self.code,
                "bindings": [list(asdict(binding).values()) for binding in self.bindings],
            },
            separators=(",", ":"),
        ).encode()
        start = MAGIC + len(header).to_bytes(8, "little") + header
        return start + bytes(-len(start) % LINE) + bytes(self.constants)

    @classmethod
    def decode(cls, blob: memoryview | bytes) -> Graph:
        """Read a blob; the constants stay where they are.

        Raises
        ------
        Error
            It is damaged, or of another version; says where.
        """
        view = memoryview(blob).cast("B")
        if bytes(view[: len(MAGIC)]) != MAGIC:
            raise Error(f"a delegate of {BACKEND_ID} begins with {bytes(view[:10])!r}: export the model again")
        start = len(MAGIC) + 8
        length = int.from_bytes(view[len(MAGIC) : start], "little")
        if length > len(view) - start:
            raise Error(f"the delegate's header of {length} bytes is cut off")
        try:
            header = json.loads(bytes(view[start : start + length]))
            graph = cls(
                [
                    Value(dtype, tuple(sizes), None if data is None else tuple(data))
                    for dtype, sizes, data in header["values"]
                ],
                [
                    Operation(name, _typed(arguments), tuple(outputs))
                    for name, arguments, outputs in header["operations"]
                ],
                list(header["inputs"]),
                list(header["outputs"]),
                header["symbols"],
                [tuple(step) for step in header["code"]],
                [Binding(*entry) for entry in header["bindings"]],
                view[start + length + -(start + length) % LINE :],
            )
            graph.check()
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, PlanError) as error:
            raise Error(f"the delegate's header is damaged: {type(error).__name__}: {error}") from error
        return graph

    def check(self) -> None:
        """Refuse what does not fit together; raises ValueError or TypeError."""
        n_registers = SizeProgram(self.n_symbols, self.code).n_registers
        for value in self.values:
            self._check_value(value, n_registers)
        given = [place for place in self.inputs if place is not None]
        for place in (*given, *self.outputs):
            _check_index(place, len(self.values), "value")
        if len({*given}) != len(given) or len({*self.outputs}) != len(self.outputs) or {*given} & {*self.outputs}:
            raise ValueError("a value is an argument twice")
        written = {*given, *(i for i, value in enumerate(self.values) if value.data is not None)}
        self._check_operations(written, n_registers)
        if not written.issuperset(self.outputs):
            raise ValueError("an output is never written")
        self._check_bindings()

    def _check_operations(self, written: set[int], n_registers: int) -> None:
        for operation in self.operations:
            if not isinstance(operation.name, str) or not isinstance(operation.arguments, dict):
                raise TypeError("an operation has no name or no arguments")
            for leaf in leaves(operation.arguments):
                if isinstance(leaf, TensorId) and leaf.value not in written:
                    raise ValueError(f"{operation.name} reads value {leaf.value}, which nothing wrote before")
                if isinstance(leaf, Size):
                    _check_index(leaf.register, n_registers, "register")
            for place in operation.outputs:
                _check_index(place, len(self.values), "value")
                if place in written:
                    raise ValueError(f"{operation.name} writes value {place} once more")
                written.add(place)

    def _check_bindings(self) -> None:
        bound = set()
        for binding in self.bindings:
            _check_index(binding.symbol, self.n_symbols, "symbol")
            _check_index(binding.input, len(self.inputs), "input")
            place = self.inputs[binding.input]
            rank = 0 if place is None else len(self.values[place].sizes)
            if not 0 <= binding.dim < rank or binding.scale < 1:
                raise ValueError(f"symbol {binding.symbol} is bound to no size of input {binding.input}")
            bound.add(binding.symbol)
        if len(bound) != self.n_symbols:
            raise ValueError(f"{self.n_symbols} symbols, of which inputs define {len(bound)}")

    def _check_value(self, value: Value, n_registers: int) -> None:
        if value.dtype not in ITEM_BYTES:
            raise ValueError(f"unknown dtype {value.dtype!r}")
        if len(value.sizes) > MOST_RANK:
            raise ValueError(f"a tensor of rank {len(value.sizes)}")
        for register in value.sizes:
            _check_index(register, n_registers, "register")
        if value.data is not None:
            offset, nbytes = value.data
            if offset < 0 or nbytes < 0 or offset + nbytes > len(self.constants):
                raise ValueError(f"constant bytes {offset} to {offset + nbytes} of {len(self.constants)}")


def _check_index(index: Any, count: int, what: str) -> None:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
        raise ValueError(f"{what} {index!r} of {count}")


def leaves(argument: Any) -> list[Any]:
    """All entries of an argument of an operation, those of lists one by one."""
    if isinstance(argument, dict):
        return [leaf for entry in argument.values() for leaf in leaves(entry)]
    if isinstance(argument, list):
        return [leaf for entry in argument for leaf in leaves(entry)]
    return [argument]


def _plain(argument: Any) -> Any:
    """As JSON has it: values, sizes and numbers that JSON does not know are objects with one key."""
    if isinstance(argument, TensorId):
        return {"value": argument.value}
    if isinstance(argument, Size):
        return {"size": argument.register}
    if isinstance(argument, float) and not math.isfinite(argument):
        return {"float": str(argument)}
    if isinstance(argument, dict):
        return {name: _plain(entry) for name, entry in argument.items()}
    if isinstance(argument, list | tuple):
        return [_plain(entry) for entry in argument]
    return argument


def _typed(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: _typed_entry(entry) for name, entry in arguments.items()}


def _typed_entry(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_typed_entry(inner) for inner in entry]
    if not isinstance(entry, dict):
        return entry
    ((kind, content),) = entry.items()
    return {"value": TensorId, "size": Size, "float": float}[kind](content)
