"""A graph at certain sizes: its dispatches, and where its inner tensors lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...allocator.errors import Error, InputError
from ...allocator.planner import OffsetPlanner
from .barriers import Range, barriers_before
from .dtypes import ITEM_BYTES
from .graph import Size, TensorId
from .in_place import share_in_place
from .operators.call import BoundTensor, Call, Dispatch, groups_1d
from .operators.registry import all_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from ...allocator.sizes import SizeProgram
    from .graph import Graph
    from .weights import Weights

__all__ = ["PADDING", "BoundGraph", "Place", "padded"]

PADDING = 16  # bytes; what shaders may read or write up to behind a tensor
NODES = 500  # of exact search, some microseconds each, where rules miss the bound: the same plan on every machine
COPY = "copy_words"
EMPTY = BoundTensor(0, "uint8", ())


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: among the scratch (`kind` "inner", `index` its offset), an argument, or a constant."""

    kind: str
    index: int
    nbytes: int


class BoundGraph:
    """A graph whose sizes are known.

    Parameters
    ----------
    graph, program, weights
        What is bound; `program` is the graph's size program.
    limits
        The device's.
    shapes
        Sizes of each input that is a tensor; () for a number, which decides nothing.

    Attributes
    ----------
    dispatches : list of Dispatch
        In order.
    places : list of list of Place
        For each dispatch where its buffers are.
    barriers : list of bool
        For each dispatch whether it waits for those before.
    scratch_bytes : int
        For inner tensors.
    lower_bound : int
        Bytes of inner tensors that live at a time, the most.
    output_shapes : list of tuple of int
        Shapes of the outputs.

    Raises
    ------
    InputError
        The shapes are not what the graph was exported for.
    """

    def __init__(
        self,
        graph: Graph,
        program: SizeProgram,
        weights: Weights,
        limits: Mapping[str, int],
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        self.limits = limits
        self._graph, self._weights = graph, weights
        self._sizes = program.evaluate(symbol_values(graph, shapes))
        self._tensors = [self._tensor(i) for i in range(len(graph.values))]
        self._check_inputs(shapes)
        self.output_shapes = [self._tensors[place].shape for place in graph.outputs]
        self._root: dict[int, int] = {}  # of tensors that are the bytes of another
        self._outputs = {place: i for i, place in enumerate(graph.outputs)}
        self._inputs = {place: i for i, place in enumerate(graph.inputs) if place is not None}
        self.dispatches: list[Dispatch] = []
        self._operators: list[int] = []  # of each dispatch: whose it is
        for self._operator, operation in enumerate(graph.operations):
            arguments = {name: self._bind(entry) for name, entry in operation.arguments.items()}
            outs = [self._tensors[place] for place in operation.outputs]
            all_operators()[operation.name].emit(Call(operation.name, arguments, outs, self))
        for place in graph.outputs:
            self._settle_output(place)
        share_in_place(self.dispatches, self._find, self._is_inner, self._outputs, self._root.__setitem__)
        self._plan()
        parts = [
            operator if each.apart else None for operator, each in zip(self._operators, self.dispatches, strict=True)
        ]
        self.barriers = barriers_before([self._accesses(i) for i in range(len(self.dispatches))], parts)

    def emit(self, dispatch: Dispatch) -> None:
        """Add a dispatch."""
        if len(dispatch.push) > self.limits["maxPushConstantsSize"]:
            raise Error(f"shader {dispatch.shader!r} is given {len(dispatch.push)} bytes of push constants")
        self.dispatches.append(dispatch)
        self._operators.append(self._operator)

    def temporary(self, dtype: str, shape: tuple[int, ...]) -> BoundTensor:
        """Make a tensor that lives while dispatches use it."""
        made = BoundTensor(len(self._tensors), dtype, shape)
        self._tensors.append(made)
        return made

    def packed(
        self, tensor: BoundTensor, how: str, pack: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    ) -> BoundTensor:
        """Make a constant from a constant, once."""
        return self._weights.packed(tensor, how, pack)

    def is_constant(self, tensor: BoundTensor) -> bool:
        """Whether its bytes are known before anything runs."""
        return self._weights.is_constant(tensor)

    def array(self, tensor: BoundTensor) -> np.ndarray[Any, Any]:
        """The elements of a constant."""
        return self._weights.array(tensor)

    def alias(self, out: BoundTensor, source: BoundTensor) -> None:
        """Let `out` have the bytes of `source`; a copy where both are arguments, or one is a constant."""
        if out.nbytes != source.nbytes:
            raise Error(f"a tensor of {out.nbytes} bytes cannot be the bytes of one of {source.nbytes}")
        root = self._find(source.number)
        if out.number not in self._outputs:
            self._root[out.number] = root
        elif root in self._outputs or root in self._inputs or self.is_constant(self._by_number(root, source)):
            self._copy(out, source)
        else:
            self._root[root] = out.number

    def _copy(self, out: BoundTensor, source: BoundTensor) -> None:
        words = -(-out.nbytes // 4)
        if words:
            push = words.to_bytes(4, "little")
            self.emit(Dispatch(COPY, (source,), (out,), push, groups_1d(words, 256), ()))

    def _settle_output(self, place: int) -> None:
        """An output is written where the caller wants it, not somewhere else."""
        if self._find(place) != place:
            raise Error(f"output {place} of a Vulkan delegate has the bytes of another tensor")

    def _by_number(self, number: int, known: BoundTensor) -> BoundTensor:
        return self._tensors[number] if number >= 0 else BoundTensor(number, known.dtype, known.shape)

    def _is_inner(self, root: int) -> bool:
        """Whether it is scratch."""
        known = root in self._outputs or root in self._inputs
        return not known and not self.is_constant(self._by_number(root, EMPTY))

    def _find(self, number: int) -> int:
        while number in self._root:
            number = self._root[number]
        return number

    def _tensor(self, place: int) -> BoundTensor:
        value = self._graph.values[place]
        shape = tuple(self._sizes[register] for register in value.sizes)
        if any(size < 0 for size in shape) or math.prod(shape) * ITEM_BYTES[value.dtype] >= 1 << 47:
            raise InputError(f"a tensor inside a Vulkan delegate would have the shape {shape} for these inputs")
        return BoundTensor(place, value.dtype, shape)

    def _bind(self, entry: Any) -> Any:
        if isinstance(entry, TensorId):
            return self._tensors[entry.value]
        if isinstance(entry, Size):
            return self._sizes[entry.register]
        return [self._bind(inner) for inner in entry] if isinstance(entry, list) else entry

    def _check_inputs(self, shapes: Sequence[tuple[int, ...]]) -> None:
        for i, place in enumerate(self._graph.inputs):
            if place is not None and shapes[i] != self._tensors[place].shape:
                raise InputError(
                    f"input {i} of a Vulkan delegate has the shape {shapes[i]}, where the others ask for "
                    f"{self._tensors[place].shape}"
                )

    def _plan(self) -> None:
        """Lifetimes of the inner tensors, and their offsets."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        nbytes: dict[int, int] = {}
        for step, dispatch in enumerate(self.dispatches):
            for tensor in (*dispatch.reads, *dispatch.writes):
                root = self._find(tensor.number)
                if not self._is_inner(root):
                    continue
                first.setdefault(root, step)
                last[root] = step + 1
                nbytes[root] = max(nbytes.get(root, 0), padded(tensor.nbytes))
        roots = list(first)
        alignment = max(64, self.limits["minStorageBufferOffsetAlignment"])
        planner = OffsetPlanner(alignment, max_nodes=NODES)
        plan = planner.find([nbytes[r] for r in roots], [first[r] for r in roots], [last[r] for r in roots])
        self._offsets = dict(zip(roots, plan.offsets, strict=True))
        self.scratch_bytes, self.lower_bound = plan.peak, plan.lower_bound
        self.places = [
            [self._place(tensor) for tensor in (*dispatch.reads, *dispatch.writes)] for dispatch in self.dispatches
        ]

    def _place(self, tensor: BoundTensor) -> Place:
        root = self._find(tensor.number)
        nbytes = padded(tensor.nbytes)
        if nbytes > self.limits["maxStorageBufferRange"]:
            raise InputError(
                f"a tensor of shape {tensor.shape} inside a Vulkan delegate has {nbytes} bytes, shaders of this device "
                f"see {self.limits['maxStorageBufferRange']} (maxStorageBufferRange)"
            )
        if root in self._outputs:
            return Place("argument", len(self._graph.inputs) + self._outputs[root], nbytes)
        if root in self._inputs:
            return Place("argument", self._inputs[root], nbytes)
        if root in self._offsets:
            return Place("inner", self._offsets[root], nbytes)
        return Place("constant", root, nbytes)

    def _accesses(self, step: int) -> tuple[list[Range], list[Range]]:
        """Ranges that a dispatch reads and writes."""
        n_reads = len(self.dispatches[step].reads)
        ranges = [range_of(place) for place in self.places[step]]
        return ranges[:n_reads], ranges[n_reads:]

    def constant(self, place: Place) -> Any:
        """The buffer of a constant."""
        known = self._tensors[place.index] if place.index >= 0 else BoundTensor(place.index, "uint8", ())
        return self._weights.buffer(known)


def padded(nbytes: int) -> int:
    """Bytes that a tensor's buffer has."""
    return max(-(-nbytes // PADDING) * PADDING, PADDING)


def range_of(place: Place) -> Range:
    """The bytes of a place; arguments and constants are spaces of their own."""
    if place.kind == "inner":
        return "inner", place.index, place.index + place.nbytes
    return f"{place.kind} {place.index}", 0, place.nbytes


def symbol_values(graph: Graph, shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The symbols that inputs of these shapes define.

    Raises
    ------
    InputError
        A size is none that the graph was exported for.
    """
    values = [0] * graph.n_symbols
    for binding in graph.bindings:
        size = shapes[binding.input][binding.dim]
        value, rest = divmod(size - binding.offset, binding.scale)
        if rest or value < 0:
            raise InputError(f"input {binding.input} of a Vulkan delegate cannot have the size {size}")
        values[binding.symbol] = value
    return values
