"""Families of operators, so that a memory map needs ten colours and not a hundred."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..memory_plan import PlannedBuffer

__all__ = ["FAMILIES", "SCRATCH", "SHOWN", "Family", "family_of", "family_of_buffer"]


@dataclass(frozen=True)
class Family:
    """A kind of operator.

    Attributes
    ----------
    name : str
        What a legend calls it.
    colour : str
        Fill colour, ``#rrggbb``.
    operators : str
        Regular expression that the operator's bare name (``convolution`` of ``aten::convolution.out``) matches fully.
    """

    name: str
    colour: str
    operators: str


FAMILIES = (
    Family("convolution", "#4e79a7", r".*conv.*"),
    Family("matrix product", "#f28e2b", r"(add)?mm|b?addbmm|baddbmm|bmm|matmul|linear|addmv|mv|dot|einsum"),
    Family("softmax", "#e15759", r".*softmax.*|.*attention.*"),
    Family("normalisation", "#76b7b2", r".*(layer|batch|group|instance|rms)_norm.*"),
    Family(
        "reduction", "#b07aa1", r"sum|mean|amax|amin|max|min|any|all|prod|var|std|argmax|argmin|cumsum|topk|sort|norm"
    ),
    Family("pooling, resizing", "#ff9da7", r".*pool.*|upsample.*|resize2d.*|grid_sample.*|pixel_(un)?shuffle|.*pad.*"),
    Family(
        "data movement",
        "#edc948",
        r".*copy.*|.*view.*|permute|transpose|cat|stack|split.*|slice.*|select.*|expand|_?clone.*|index.*|gather|scatter.*|"
        r"embedding.*|repeat.*|unsqueeze|squeeze|flip|roll|masked_.*|nonzero|as_strided|_?to_dim_order.*|move",
    ),
    Family("creation", "#a0cbe8", r"full.*|zeros.*|ones.*|arange.*|empty.*|eye|tri[lu]|scalar_tensor|rand.*"),
    Family("delegate", "#9c755f", r"[A-Z]\w*"),
    Family("element by element", "#59a14f", r"\w+"),
    Family("other", "#bab0ac", r".*"),
)
"""The families in the order in which they are tried and shown; the last one takes what is left."""

SCRATCH = Family("scratch of a delegate", "#6b4c9a", "")
"""What delegates work in: no operator's result."""

SHOWN = (*FAMILIES, SCRATCH)
"""All that a legend can have, in its order."""

_PATTERNS = [re.compile(family.operators) for family in FAMILIES]


def family_of(operator: str) -> Family:
    """Family of an operator or delegate, e.g. ``aten::convolution.out`` or ``XnnpackBackend``."""
    name = operator.rpartition("::")[2].partition(".")[0]
    for family, pattern in zip(FAMILIES, _PATTERNS, strict=True):
        if pattern.fullmatch(name):
            return family
    return FAMILIES[-1]


def family_of_buffer(buffer: PlannedBuffer) -> Family:
    """Family of a planned buffer: that of the operator that writes it, or `SCRATCH`."""
    return SCRATCH if buffer.kind == "scratch" else family_of(buffer.definition)
