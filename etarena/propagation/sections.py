"""Memory of an exported method at sizes nobody has run, from its plan section alone: no torch, no runtime."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..allocator import OffsetPlanner, SizeProgram, plan
from ..allocator.errors import DeviceError, InputError, InputTypeError, PlanError, ShapeError, SizeOverflowError
from ..allocator.plan_digest import MAGIC, digest_positions
from ..device.device import Device
from ..shapes import checked_shape
from .memory import MethodMemory, RegionMemory

__all__ = ["SectionEstimator", "sections_of"]

HEADER = "<IQQQ"
"""Of ExecuTorch's extended header, behind its magic: its bytes, those of the program, offset and bytes of segments."""
SIZED_HEADER = 32
"""Bytes of a header that says how many bytes the segments have."""
LARGEST_SIZE = 2**31 - 1
LARGEST_BYTES = 2**62


def sections_of(source: str | os.PathLike[str] | bytes) -> list[plan.Method]:
    """Plan sections of a ``.pte`` file or its bytes, one a method, in the order of the file; none for a stock file.

    Raises
    ------
    PlanError
        The file is damaged, or no ``.pte`` file at all.
    FileNotFoundError
        There is no such file.
    """
    data = source if isinstance(source, bytes) else _mapped(Path(source))
    if data[4:8] != b"ET12":
        what = "these bytes are" if isinstance(source, bytes) else f"{os.fspath(source)} is"
        raise PlanError(f"{what} no .pte program of ExecuTorch")
    _check_whole(data)
    plan.check(data)
    starts = [at - len(MAGIC) for at in digest_positions(data)]
    # What follows a section in the file is no part of it, and is not looked at.
    return [plan.decode(data[at:end]) for at, end in zip(starts, [*starts[1:], len(data)], strict=False)]


def _check_whole(data: bytes | mmap.mmap) -> None:
    """Compare the length of a file with what ExecuTorch's extended header says, so that none of it is missing."""
    if data[8:12] != b"eh00" or len(data) < 12 + struct.calcsize(HEADER):
        return
    nbytes, program, base, segments = struct.unpack_from(HEADER, data, 12)
    end = max(program, base + segments if nbytes >= SIZED_HEADER else base)
    if len(data) < end:
        raise PlanError(f"the file is cut off: it has {len(data):,} of {end:,} bytes")


def _mapped(path: Path) -> mmap.mmap | bytes:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class SectionEstimator:
    """Predicts the memory of a method.

    Parameters
    ----------
    section : Method
        Decoded and validated plan section.
    """

    def __init__(self, section: plan.Method) -> None:
        self.section = section
        self._program = SizeProgram(len(section.symbols), section.size_code)
        self._planners: dict[str, OffsetPlanner] = {}
        self._names = {symbol.name: at for at, symbol in enumerate(section.symbols)}
        self._lengths = {
            entry.symbol: (section.states[entry.value].length - entry.offset) // entry.scale
            for entry in section.discoveries
            if entry.teller is plan.Teller.STATE_LENGTH
        }
        self._regions: dict[str, list[int]] = {"cpu": []}
        for position, value in enumerate(section.values):
            if value.storage == position and value.kind is plan.Kind.ACTIVATION:
                name = "cpu" if value.is_planned else str(Device(value.device_type, value.device_index))
                self._regions.setdefault(name, []).append(position)

    @property
    def name(self) -> str:
        """The method."""
        return self.section.name

    @property
    def symbols(self) -> list[str]:
        """Names of the sizes that vary."""
        return [symbol.name for symbol in self.section.symbols]

    @property
    def told(self) -> list[str]:
        """Symbols that only data tells, which need a number each; lengths of caches have that of an empty one."""
        return [self.section.symbols[at].name for at in sorted(self._told())]

    @property
    def is_exact(self) -> bool:
        """Whether a run needs just what is predicted: no scratch of delegates, no replanning when data tells sizes."""
        return not self.section.delegates and not self._told()

    def sizes_for(self, shapes: Sequence[Any] | Mapping[str, Any]) -> dict[str, int]:
        """Numbers of the symbols that the sizes of inputs give.

        Parameters
        ----------
        shapes : sequence or mapping
            Sizes of each tensor input (an int for an int input that is a size), in order or by name.

        Raises
        ------
        InputError
            Not one shape for each input, or one of another rank or with another fixed size.
        ShapeError
            A size is illegal for the model.
        """
        wanted = [entry for entry in self.section.inputs if entry.value >= 0 or entry.symbol >= 0]
        names = ", ".join(entry.name for entry in wanted)
        if isinstance(shapes, Mapping):
            if set(shapes) != {entry.name for entry in wanted}:
                raise InputError(f"shapes must name each of {names} once")
            shapes = [shapes[entry.name] for entry in wanted]
        if isinstance(shapes, str) or not isinstance(shapes, Sequence):
            raise InputTypeError(f"shapes must be a sequence or mapping, got {type(shapes).__name__}")
        if len(shapes) != len(wanted):
            raise InputError(f"expected {len(wanted)} shapes ({names}), got {len(shapes)}")
        given = {
            id(entry): checked_shape(self.section, entry, shape) for entry, shape in zip(wanted, shapes, strict=True)
        }
        sizes = {}
        for binding in self.section.bindings:
            entry = self.section.inputs[binding.input]
            symbol = self.section.symbols[binding.symbol]
            size = given[id(entry)][max(binding.dim, 0)]
            number, rest = divmod(size - binding.offset, binding.scale)
            if rest:
                form = f"{binding.scale}*{symbol.name}" + (f" + {binding.offset}" if binding.offset else "")
                raise ShapeError(
                    f"{_place(entry, binding.dim)} is {size}, but must be {form} for a whole {symbol.name}"
                )
            sizes[symbol.name] = number
        self._check_inputs(given, sizes)
        return sizes

    def memory(self, sizes: Mapping[str, int]) -> MethodMemory:
        """What the method needs for these numbers of its symbols.

        Raises
        ------
        InputError
            A symbol has no number, or a name is unknown.
        ShapeError
            The numbers are outside the limits of the model.
        SizeOverflowError
            A tensor is larger than ExecuTorch allows.
        """
        registers = self._evaluate(self._numbers(sizes))
        nbytes = [self._bytes(value, registers) for value in self.section.values]
        regions = [self._region(name, nbytes) for name in self._regions]
        kinds = dict.fromkeys(plan.Kind, 0)
        for position, value in enumerate(self.section.values):
            kinds[value.kind] += nbytes[position] if value.storage == position else 0
        calls = {entry.id for entry in self.section.delegates}
        return MethodMemory(
            method=self.section.name,
            sizes={symbol.name: registers[at] for at, symbol in enumerate(self.section.symbols)},
            regions=tuple(regions),
            input_bytes=kinds[plan.Kind.INPUT],
            output_bytes=kinds[plan.Kind.OUTPUT],
            state_bytes=kinds[plan.Kind.STATE],
            left_out=tuple(f"scratch of {name}" for name in sorted(calls)),
        )

    def shapes_for(self, sizes: Mapping[str, int]) -> list[Any]:
        """Shapes of the inputs for these numbers, as `Method.plan_for` takes them."""
        registers = self._evaluate(self._numbers(sizes))
        shapes: list[Any] = []
        for entry in self.section.inputs:
            if entry.value >= 0:
                shapes.append(tuple(registers[register] for register in self.section.values[entry.value].sizes))
            elif entry.symbol >= 0:
                shapes.append(registers[entry.symbol])
        return shapes

    def _told(self) -> set[int]:
        return {entry.symbol for entry in self.section.discoveries if entry.teller is not plan.Teller.STATE_LENGTH}

    def _numbers(self, sizes: Mapping[str, int]) -> list[int]:
        unknown = [name for name in sizes if name not in self._names]
        if unknown:
            raise InputError(f"there is no symbol {unknown[0]!r}; there are {', '.join(self._names) or 'none'}")
        numbers = []
        for at, symbol in enumerate(self.section.symbols):
            number: Any = sizes.get(symbol.name, self._lengths.get(at))
            if number is None:
                raise InputError(f"no number for {symbol.name}: give shapes of the inputs, or the size itself")
            if isinstance(number, bool) or not hasattr(number, "__index__"):
                raise InputTypeError(f"{symbol.name} must be an int, got {number!r}")
            number = number.__index__()
            if not symbol.min <= number <= symbol.max:
                limit = f"at least {symbol.min}" if number < symbol.min else f"at most {symbol.max}"
                raise ShapeError(f"{symbol.name} is {number}, but must be {limit}")
            numbers.append(number)
        return numbers

    def _evaluate(self, numbers: list[int]) -> list[int]:
        registers = self._program.evaluate(numbers)
        for guard in self.section.guards:
            if registers[guard.register] == 0:
                text = ", ".join(f"{symbol.name} = {numbers[at]}" for at, symbol in enumerate(self.section.symbols))
                raise ShapeError(f"these sizes break a condition of the model: {guard.text} ({text})")
        return registers

    def _check_inputs(self, given: dict[int, list[int]], sizes: dict[str, int]) -> None:
        missing = {
            symbol.name: max(symbol.min, min(symbol.max, 1))
            for symbol in self.section.symbols
            if symbol.name not in sizes
        }
        registers = self._program.evaluate(self._numbers({**missing, **sizes}))
        free = [at for at, symbol in enumerate(self.section.symbols) if symbol.name in missing]
        for entry in self.section.inputs:
            for dim, register in enumerate(self.section.values[entry.value].sizes if entry.value >= 0 else ()):
                if register not in free and registers[register] != given[id(entry)][dim]:
                    raise ShapeError(
                        f"{_place(entry, dim)} is {given[id(entry)][dim]}, but must be {registers[register]}"
                    )

    def _bytes(self, value: plan.Value, registers: list[int]) -> int:
        count = plan.itemsize(value.dtype)
        for register in value.sizes:
            size = registers[register]
            if size < 0:
                raise ShapeError(f"value {value.name!r} would have a size of {size}: the sizes are too small")
            if size > LARGEST_SIZE or count * size > LARGEST_BYTES:
                raise SizeOverflowError(f"value {value.name!r} is too large for ExecuTorch: give smaller sizes")
            count *= size
        return count

    def _region(self, name: str, nbytes: list[int]) -> RegionMemory:
        buffers = self._regions[name]
        places = {position: at for at, position in enumerate(buffers)}
        values = [self.section.values[position] for position in buffers]
        order = [places[position] for position in self.section.order if position in places] if name == "cpu" else []
        if name not in self._planners:
            self._planners[name] = OffsetPlanner(64 if name == "cpu" else _alignment(name))
        found = self._planners[name].find(
            [nbytes[position] for position in buffers],
            [value.first for value in values],
            [value.last for value in values],
            order=order or None,
        )
        return RegionMemory(name, found.peak, found.lower_bound)


def _alignment(device: str) -> int:
    """Alignment of places on a device: what its allocator says, if it is registered here."""
    from ..device.registry import device_allocator

    try:
        return max(device_allocator(device).capabilities(Device(device).index).alignment, 1)
    except DeviceError:
        return 64


def _place(entry: plan.Input, dim: int) -> str:
    return f"input {entry.name!r}" if dim < 0 else f"dimension {dim} of input {entry.name!r}"
