"""What a propagation found: the table of values, and memory at any sizes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import sympy

from ..allocator import plan_offsets
from ..allocator.errors import InputError
from .numbers import Sizes, finite, sizes_from_shapes
from .values import Materialised, PlannedCopy, PropagatedValue, Size, SizeSymbol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .arguments import Arguments, InputShape
    from .fake_run import FakeRun

__all__ = ["DeviceMemory", "Propagation", "make_propagation"]


@dataclass(frozen=True)
class DeviceMemory:
    """What a model needs on one device.

    Attributes
    ----------
    device : str
        Its name.
    results : int
        Largest sum of the bytes of results of operators that are held at one operator.
    planned : int
        Bytes that hold all of them if their places are planned, at the alignment of the arena (64).
    at : int
        An operator at which `results` is reached.
    parameters : int
        Bytes of parameters, buffers and constants.
    inputs : int
        Bytes of inputs.
    """

    device: str
    results: int
    planned: int
    at: int
    parameters: int
    inputs: int

    @property
    def total(self) -> int:
        """Bytes of all three, results as they are held."""
        return self.results + self.parameters + self.inputs


@dataclass(frozen=True)
class Propagation:
    """What `propagate` found. Sizes may be expressions in `symbols`.

    Attributes
    ----------
    values : tuple of PropagatedValue
        Inputs, parameters and buffers first, then results in the order in which operators give them.
    operators : tuple of str
        The operators in the order of their calls.
    symbols : dict of str to SizeSymbol
        Sizes that vary, and those that only data tells.
    conditions : tuple of sympy.Basic
        What must be true of the sizes for the table to hold: the model's code asked it.
    inputs : tuple of InputShape
        Name and sizes of the tensor inputs.
    copies : tuple of PlannedCopy
        Copies between devices that the device map makes necessary.
    materialised : tuple of Materialised
        Operators that ran for real on small tensors, which were freed at once.
    unchecked : tuple of str
        With ``check=True``, operators that could not be compared with a real run, and why.
    decomposed : bool
        Whether composite operators were decomposed in Python, because with sizes that vary one of them would not run in
        C++: the table then may have the parts of operators that a run has whole, and its peak may be larger.
    """

    values: tuple[PropagatedValue, ...]
    operators: tuple[str, ...]
    symbols: Mapping[str, SizeSymbol]
    conditions: tuple[Any, ...]
    inputs: tuple[InputShape, ...]
    copies: tuple[PlannedCopy, ...] = ()
    materialised: tuple[Materialised, ...] = ()
    unchecked: tuple[str, ...] = ()
    decomposed: bool = False

    @property
    def devices(self) -> list[str]:
        """Names of all devices with values on them."""
        return list(dict.fromkeys(str(value.device) for value in self.values))

    def peak(
        self, sizes: Mapping[str, int] | None = None, *, shapes: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> dict[str, DeviceMemory]:
        """Memory on each device.

        Parameters
        ----------
        sizes : mapping of str to int, optional
            Number of each symbol; needed if there are any, unless `shapes` gives them.
        shapes : sequence or mapping, optional
            Sizes of each tensor input, in order or by name, from which symbols of inputs follow.

        Returns
        -------
        dict of str to DeviceMemory
            By the name of the device.

        Raises
        ------
        InputError
            A symbol has no number, a name is unknown, or a shape does not fit.
        ShapeError
            The numbers break a limit or a condition of the model.
        """
        numbers = self._numbers(sizes, shapes)
        return {device: self._memory(device, numbers) for device in self.devices}

    def sizes_for(self, shapes: Sequence[Any] | Mapping[str, Any]) -> dict[str, int]:
        """Numbers of the symbols that shapes of the inputs give; errors as of `peak`."""
        return sizes_from_shapes(self.inputs, shapes)

    def timeline(
        self, sizes: Mapping[str, int] | None = None, *, shapes: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> dict[str, list[int]]:
        """Bytes of results that are held at each operator, by device; arguments and errors as of `peak`."""
        numbers = self._numbers(sizes, shapes)
        return {device: self._live(device, numbers) for device in self.devices}

    def expression(self, device: str = "cpu") -> Size:
        """The peak of results on a device as an expression in the symbols: the largest of all sums that occur."""
        self._check_device(device)
        sums: dict[Size, None] = {}
        steps: dict[int, list[Size]] = {}
        for value in self._results(device):
            steps.setdefault(value.first, []).append(value.nbytes)
            steps.setdefault(value.last, []).append(-value.nbytes)
        live: Size = sympy.Integer(0)
        for position in sorted(steps):
            live = sympy.expand(live + sum(steps[position]))
            sums[live] = None
        largest = [total for total in sums if total.is_number]
        varying = [total for total in sums if not total.is_number]
        fixed = [max(largest)] if largest and not varying else [t for t in largest if t == max(largest) and t > 0]
        terms = [*varying, *fixed]
        return terms[0] if len(terms) == 1 else sympy.Max(*terms, evaluate=False) if terms else sympy.Integer(0)

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data; sizes that vary as text."""
        return {
            "operators": len(self.operators),
            "symbols": [vars(symbol) for symbol in self.symbols.values()],
            "conditions": [str(condition) for condition in self.conditions],
            "values": [
                {
                    **vars(value),
                    "shape": list(map(_plain, value.shape)),
                    "stride": list(map(_plain, value.stride)),
                    "device": str(value.device),
                    "nbytes": _plain(value.nbytes),
                }
                for value in self.values
            ],
            "copies": [
                {
                    "name": c.name,
                    "from": str(c.source),
                    "to": str(c.target),
                    "nbytes": _plain(c.nbytes),
                    "for": c.before,
                }
                for c in self.copies
            ],
            "materialised": [vars(entry) for entry in self.materialised],
            "unchecked": list(self.unchecked),
            "decomposed": self.decomposed,
        }

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        """The table as text, one line a value."""
        heads = ("value", "type", "device", "strides", "bytes", "live", "made by")
        rows = [heads, *map(_row, self.values)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [f"copied: {copy.name} from {copy.source} to {copy.target}, for {copy.before}" for copy in self.copies]
        lines += [f"run for real: {entry.op} ({entry.reason}), {entry.nbytes} bytes" for entry in self.materialised]
        return "\n".join(lines)

    def _numbers(self, sizes: Any, shapes: Any) -> Sizes:
        return Sizes.of(self.symbols, self.conditions, self.inputs, sizes, shapes)

    def _check_device(self, device: str) -> None:
        if device not in self.devices:
            raise InputError(f"the model has nothing on {device!r}, only on {', '.join(self.devices)}")

    def _results(self, device: str) -> Iterator[PropagatedValue]:
        for value in self.values:
            if value.kind == "result" and not value.alias_of and str(value.device) == device:
                yield value

    def _live(self, device: str, numbers: Sizes) -> list[int]:
        steps = [0] * (max(len(self.operators), 1) + 1)
        for value in self._results(device):
            nbytes = numbers.number(value.nbytes)
            steps[value.first] += nbytes
            steps[value.last] -= nbytes
        return list(accumulate(steps))[:-1]

    def _memory(self, device: str, numbers: Sizes) -> DeviceMemory:
        live = self._live(device, numbers)
        results = max(live)
        buffers = [(numbers.number(value.nbytes), value.first, value.last) for value in self._results(device)]
        columns: Any = zip(*buffers, strict=True) if buffers else ((), (), ())
        kinds = {"parameters": ("parameter", "buffer", "constant"), "inputs": ("input",)}
        fixed = {
            name: sum(
                numbers.number(value.nbytes)
                for value in self.values
                if value.kind in which and str(value.device) == device
            )
            for name, which in kinds.items()
        }
        return DeviceMemory(device, results, plan_offsets(*columns).peak, live.index(results), **fixed)


def _plain(size: Size) -> int | str:
    return int(size) if isinstance(size, int | sympy.Integer) else str(size)


def _row(value: PropagatedValue) -> tuple[str, ...]:
    def text(sizes: Sequence[Size]) -> str:
        return f"[{', '.join(map(str, sizes))}]"

    bytes_text = f"in {value.alias_of}" if value.alias_of else str(value.nbytes)
    made = value.op or value.kind
    live = f"{value.first}-{value.last}"
    return (
        value.name,
        f"{value.dtype}{text(value.shape)}",
        str(value.device),
        text(value.stride),
        bytes_text,
        live,
        made,
    )


def make_propagation(run: FakeRun, arguments: Arguments, decomposed: bool) -> Propagation:
    """The finished table of a run."""
    renamed = {symbol: sympy.Symbol(name, integer=True) for symbol, name in run.symbol_names.items()}
    environment = run.environment
    told: dict[Any, SizeSymbol] = {}

    def named(size: Any) -> Any:
        if isinstance(size, int):
            return size
        size = environment.replace(size).xreplace(renamed)
        for symbol in size.free_symbols - set(renamed.values()):
            told.setdefault(symbol, _told(environment, symbol))
        return int(size) if size.is_Integer else size

    def declared(size: Any) -> Any:
        return size if isinstance(size, int) else size.xreplace(renamed)

    values = tuple(_renamed(value, named) for value in run.finish())
    conditions = [guard.expr.xreplace(renamed) for guard in environment.guards]
    conditions += [
        sympy.Eq(renamed[symbol], environment.replace(symbol).xreplace(renamed), evaluate=False)
        for symbol in run.symbol_names
        if environment.replace(symbol) != symbol
    ]
    return Propagation(
        values=values,
        operators=tuple(run.operators),
        symbols={**arguments.symbols, **{entry.name: entry for entry in told.values()}},
        conditions=tuple(dict.fromkeys(condition for condition in conditions if condition is not sympy.true)),
        inputs=tuple(_input(entry, declared) for entry in arguments.inputs),
        copies=tuple(PlannedCopy(**{**vars(copy), "nbytes": named(copy.nbytes)}) for copy in run.copied),
        materialised=tuple(run.doubts.materialised),
        unchecked=tuple(run.doubts.unchecked),
        decomposed=decomposed,
    )


def _input(entry: InputShape, named: Any) -> InputShape:
    return type(entry)(entry.name, tuple(map(named, entry.shape)))


def _renamed(value: PropagatedValue, named: Any) -> PropagatedValue:
    changed = {
        "shape": tuple(map(named, value.shape)),
        "stride": tuple(map(named, value.stride)),
        "nbytes": named(value.nbytes),
    }
    return PropagatedValue(**{**vars(value), **changed})


def _told(environment: Any, symbol: Any) -> SizeSymbol:
    span = environment.var_to_range.get(symbol)

    low, high = (0, 2**63 - 1) if span is None else (finite(span.lower, 0), finite(span.upper, 2**63 - 1))
    return SizeSymbol(str(symbol), max(low, 0), high)
