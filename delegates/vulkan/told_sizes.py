"""Sizes that a part of a graph is given as numbers, read off a tensor inside it instead.

A delegate's plan is made before any number is known, from the sizes of its tensors alone. A picture that is resized to
the size of another is therefore left to others, unless the part sees that other, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from .preprocess import DTYPES
from .schema import is_row_major

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from torch.fx import GraphModule, Node

__all__ = ["TellSizes", "is_told"]

SIZE = torch.ops.aten.sym_size.int
TOLD = "etarena_told_size"


def is_told(node: Node) -> bool:
    """Whether a node is a size that `TellSizes` made."""
    return TOLD in node.meta


class TellSizes(PassBase):
    """Give operators that take sizes as numbers a size of a tensor for each, which nobody else uses.

    Parameters
    ----------
    untold : callable
        Operators of a graph that would go to a delegate if only their sizes were told.
    """

    def __init__(self, untold: Callable[[GraphModule], Collection[Node]]) -> None:
        super().__init__()
        self._untold = untold

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite `graph_module` in place."""
        nodes = list(graph_module.graph.nodes)
        changed = False
        if any(is_size(node) for node in nodes):
            found = set(self._untold(graph_module))
            order = {node: place for place, node in enumerate(nodes)}
            for place, node in enumerate(nodes):
                changed |= node in found and _told(node, nodes[:place], order)
        if changed:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, changed)


def is_size(node: Node) -> bool:
    """Whether a node computes a size that varies."""
    return isinstance(node.meta.get("val"), torch.SymInt)


def _told(user: Node, before: list[Node], order: dict[Node, int]) -> bool:
    """Replace all sizes that a node takes, or none."""
    sizes = [node for node in user.all_input_nodes if is_size(node)]
    found = {size: _tensor_of_size(str(size.meta["val"]), before, order) for size in sizes}
    if not sizes or None in found.values():
        return False
    for size, source in found.items():
        with user.graph.inserting_before(user):
            own = user.graph.call_function(SIZE, source)
        own.meta = {"val": size.meta["val"], TOLD: True}
        user.replace_input_with(size, own)
    return True


def _tensor_of_size(size: str, before: list[Node], order: dict[Node, int]) -> tuple[Node, int] | None:
    """The last tensor made before, and needed later or an input, that has a size, with the dimension of it."""
    for node in reversed(before):
        value: Any = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in DTYPES or not is_row_major(value):
            continue
        if node.op == "placeholder" or any(order.get(user, 0) > len(before) for user in node.users):
            for dim, extent in enumerate(value.shape):
                if str(extent) == size:
                    return node, dim
    return None
