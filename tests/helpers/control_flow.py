"""Torch's control flow for models under test: plain Python when run eagerly, the operators when exported.

Eagerly the operators compile their bodies anew for every shape, which is slow, and refuse what they could run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree
from torch._higher_order_ops import scan as scan_operator
from torch._higher_order_ops import while_loop as while_loop_operator
from torch._higher_order_ops.map import map as map_operator

if TYPE_CHECKING:
    from collections.abc import Callable


def cond(predicate: Any, true: Callable[..., Any], false: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """``torch.cond``."""
    if torch.compiler.is_compiling():
        return torch.cond(predicate, true, false, operands)
    return (true if predicate else false)(*operands)


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """``torch.while_loop``."""
    if torch.compiler.is_compiling():
        return while_loop_operator(condition, body, carried)
    while condition(*carried):
        carried = body(*carried)
    return carried


def scan(step: Callable[..., Any], carried: Any, rows: Any) -> tuple[Any, Any]:
    """``scan`` over the first dimension."""
    if torch.compiler.is_compiling():
        return scan_operator(step, carried, rows)
    stacked = []
    for number in range(len(pytree.tree_leaves(rows)[0])):
        carried, result = step(carried, pytree.tree_map(lambda x, number=number: x[number], rows))
        stacked.append(result)
    return carried, pytree.tree_map(lambda *results: torch.stack(results), *stacked)


def map_rows(function: Callable[..., Any], rows: Any, *operands: Any) -> Any:
    """``map`` over the first dimension."""
    if torch.compiler.is_compiling():
        return map_operator(function, rows, *operands)
    results = [
        function(pytree.tree_map(lambda x, number=number: x[number], rows), *operands)
        for number in range(len(pytree.tree_leaves(rows)[0]))
    ]
    return pytree.tree_map(lambda *items: torch.stack(items), *results)
