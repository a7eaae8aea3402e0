"""The order in which the buffers of a method are placed at run time, found at export for the example's sizes."""

from collections.abc import Sequence

import sympy
import torch
from torch.export import ExportedProgram

from .allocator import SizeProgram, plan, plan_offsets
from .device.dtypes import ITEM_BYTES

__all__ = ["example_sizes", "preferred_order"]

BUDGET_NS = 1_000_000_000


def example_sizes(program: ExportedProgram, symbols: Sequence[sympy.Symbol]) -> list[int] | None:
    """What each symbol was in the example inputs; None if the program does not tell for one of them."""
    known: dict[sympy.Symbol, int] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for size in sizes:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.hint is not None:
                known[size.node.expr] = int(size.node.hint)
    return [known[symbol] for symbol in symbols] if all(symbol in known for symbol in symbols) else None


def preferred_order(section: plan.Method, examples: Sequence[int]) -> list[int]:
    """Plan a method for example sizes with the time that export has.

    Parameters
    ----------
    section : plan.Method
        The method; its order is not looked at.
    examples : sequence of int
        Value of each symbol.

    Returns
    -------
    list of int
        Positions in ``section.values``: placed first fit in this order, the planned buffers get the plan found.
    """
    registers = SizeProgram(len(section.symbols), section.size_code).evaluate(list(examples))
    planned = [
        position for position, value in enumerate(section.values) if value.storage == position and value.is_planned
    ]
    sizes = []
    for position in planned:
        value = section.values[position]
        nbytes = ITEM_BYTES[value.dtype]
        for register in value.sizes:
            nbytes *= registers[register]
        sizes.append(nbytes)
    found = plan_offsets(
        sizes,
        [section.values[position].first for position in planned],
        [section.values[position].last for position in planned],
        effort="export",
        budget_ns=BUDGET_NS,
    )
    return [planned[i] for i in found.order]
