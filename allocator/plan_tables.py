"""The tables of a plan section as dataclasses, field by field those of ``plan.fbs``.

"Position" is an index into one of this section's own lists; fields called ``index`` are indices of the program: of an
EValue, or of a delegate. A register is a result of the size program: register ``i < len(symbols)`` holds symbol ``i``.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "VERSION",
    "Binding",
    "Delegate",
    "Discovery",
    "Guard",
    "Input",
    "Kind",
    "Method",
    "Output",
    "Scalar",
    "SizeInstruction",
    "State",
    "Symbol",
    "Teller",
    "Value",
]

VERSION = 1
INT64_MAX = 2**63 - 1


class Kind(IntEnum):
    """Who owns the memory of a value."""

    ACTIVATION = 0
    INPUT = 1
    OUTPUT = 2
    CONSTANT = 3
    STATE = 4


class Scalar(IntEnum):
    """What an input or output of the method is."""

    TENSOR = 0
    INT = 1
    FLOAT = 2
    BOOL = 3
    STRING = 4
    NONE = 5


class Teller(IntEnum):
    """Who tells a symbol that no input size defines; see `Discovery`."""

    COUNT_NONZERO = 0
    SCALAR = 1
    SIZE = 2
    STATE_LENGTH = 3


@dataclass(slots=True)
class Symbol:
    """A size known only at run time, with its legal range, both ends inclusive."""

    name: str
    min: int = 0
    max: int = INT64_MAX


@dataclass(slots=True)
class Binding:
    """``size == scale * symbol + offset``; size is dimension `dim` of an input, or an int input itself (``dim=-1``)."""

    symbol: int
    input: int
    dim: int
    scale: int = 1
    offset: int = 0


@dataclass(slots=True)
class Discovery:
    """``told number == scale * symbol + offset``, for a symbol that no input size defines.

    ``COUNT_NONZERO``: how many elements of values[`value`] are not zero, just before `instruction` runs.
    ``SCALAR``: the int in EValue `index`, just after it. ``SIZE``: size `dim` of values[`value`], just after it; the
    value is planned with the bound in register `upper`, unless that is -1. ``STATE_LENGTH``: size `dim` of
    states[`value`] when a call begins. A symbol may have several discoveries and each may happen several times in a
    run; the last one counts.
    """

    symbol: int
    teller: Teller
    instruction: int = 0
    value: int = -1
    index: int = -1
    dim: int = 0
    upper: int = -1
    scale: int = 1
    offset: int = 0
    origin: str = ""


class SizeInstruction(NamedTuple):
    """One instruction of the size program, in the order that `SizeProgram` takes."""

    opcode: int
    a: int = 0
    b: int = 0
    c: int = 0


@dataclass(slots=True)
class Guard:
    """One of the model's own conditions: `register` must be non-zero; `text` says it in the model's words."""

    register: int
    text: str


@dataclass(slots=True)
class Value:
    """A tensor of the program; `first` and `last` (half-open instructions) count on the owner of the storage only.

    `device_type` is 0 for the CPU. A value on another device is an input, an output or an activation.
    """

    index: int
    name: str
    dtype: int
    sizes: list[int]
    dim_order: list[int]
    storage: int
    kind: Kind
    first: int = 0
    last: int = 0
    definition: str = ""
    device_type: int = 0
    device_index: int = 0

    @property
    def is_planned(self) -> bool:
        """Whether it is an activation of the CPU, which the arena holds."""
        return self.kind is Kind.ACTIVATION and self.device_type == 0


@dataclass(slots=True)
class Input:
    """An input of the method: a tensor (`value`), an int that is a symbol (`symbol`), or a constant with its value.

    After a run that succeeds, values[`result`] (unless that is -1) is copied into a tensor.
    """

    index: int
    name: str
    scalar: Scalar = Scalar.TENSOR
    value: int = -1
    symbol: int = -1
    int_value: int = 0
    float_value: float = 0.0
    string_value: str = ""
    mutated: bool = False
    result: int = -1


@dataclass(slots=True)
class Output:
    """An output slot of the method: a tensor (`value`), or an int that is a size expression (`register`)."""

    index: int
    scalar: Scalar = Scalar.TENSOR
    value: int = -1
    hidden: bool = False
    register: int = -1


@dataclass(slots=True)
class State:
    """A mutable buffer of the model and its start value; empty `initial` means all zero bytes.

    After a run that succeeds it is what values[`result`] is, or what it was if that is -1. A state with `dim` >= 0
    grows in that dimension, starts with `length` entries there, and keeps the last `window` of them (0: all).
    """

    name: str
    value: int
    initial: bytes = b""
    result: int = -1
    dim: int = -1
    length: int = 0
    window: int = 0


@dataclass(slots=True)
class Delegate:
    """A call of a delegate: its index, backend id, instruction and the EValue indices it is given."""

    index: int
    id: str
    instruction: int
    arguments: list[int]


@dataclass(slots=True)
class Method:
    """Everything the run-time planner needs to know about one method."""

    name: str
    instructions: int = 0
    labels: list[str] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    size_code: list[SizeInstruction] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    delegates: list[Delegate] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    discoveries: list[Discovery] = field(default_factory=list)
    version: int = VERSION
