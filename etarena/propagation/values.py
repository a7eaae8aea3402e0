"""What is known of a value ahead of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["Kind", "Materialised", "PlannedCopy", "PropagatedValue", "Size", "SizeSymbol"]

Size: TypeAlias = Any  # int or sympy.Expr
Kind: TypeAlias = Literal["input", "parameter", "buffer", "constant", "result"]


@dataclass(frozen=True)
class PropagatedValue:
    """One tensor of a model.

    Attributes
    ----------
    name : str
        Of an input, parameter or buffer; otherwise of the submodule and the operator that made it, or of its node.
    kind : str
        ``"input"``, ``"parameter"``, ``"buffer"``, ``"constant"`` for what the model's code holds elsewhere, or
        ``"result"`` of an operator.
    shape, stride : tuple
        Numbers, or sympy expressions in `Propagation.symbols`; strides in elements.
    dtype : str
        As torch names it, such as ``"float32"``.
    device : Device
        Where it is.
    nbytes : int or sympy.Expr
        Bytes of its storage; 0 for a value that shares the storage of another.
    first, last : int
        Half-open interval of operators in which its storage is held.
    alias_of : str
        The value whose storage it shares: of a view, or of the result of an operator that works in place. Empty for a
        value with a storage of its own.
    op : str
        Operator that made it, such as ``"aten.convolution.default"``; empty for what was there before.
    """

    name: str
    kind: Kind
    shape: tuple[Size, ...]
    dtype: str
    device: Device
    stride: tuple[Size, ...]
    nbytes: Size
    first: int
    last: int
    alias_of: str = ""
    op: str = ""


@dataclass(frozen=True)
class SizeSymbol:
    """A size that is not fixed.

    Attributes
    ----------
    name : str
        As `Propagation.peak` and its siblings take it.
    min, max : int
        Its legal range, both ends inclusive.
    example : int or None
        Its number in the example; None for one that data tells.
    """

    name: str
    min: int
    max: int
    example: int | None = None


@dataclass(frozen=True)
class Materialised:
    """An operator that ran for real on small random tensors, because torch could not tell what it gives.

    Attributes
    ----------
    op : str
        The operator.
    name : str
        The value that it makes.
    reason : str
        ``"no meta kernel"``, or what its meta kernel raised.
    nbytes : int
        Bytes of the real arguments and results, which were freed at once.
    """

    op: str
    name: str
    reason: str
    nbytes: int


@dataclass(frozen=True)
class PlannedCopy:
    """A copy between devices that the device map makes necessary and the model does not have.

    Attributes
    ----------
    name : str
        Of the copy, a value of the table.
    source, target : Device
        From where to where.
    nbytes : int or sympy.Expr
        Bytes that move.
    before : str
        Submodule or operator that needs it.
    """

    name: str
    source: Device
    target: Device
    nbytes: Size
    before: str
