"""Results of the bodies of control flow: in memory of their own where something else would be overwritten."""

from collections.abc import Callable

import torch
import torch.utils._pytree as pytree
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import PassBase, PassResult
from torch.fx import GraphModule, Node

from .loops import COND, SCAN, WHILE_LOOP
from .unplanned import graph_modules

__all__ = ["CopySharedResults"]


class CopySharedResults(PassBase):
    """Copy the results of bodies that share memory with something else.

    A branch of a ``cond`` that returns an operand, a constant or the same tensor twice would make the result of the
    ``cond`` point at memory that something else uses; a copy makes the results of all branches interchangeable. A loop
    that returns what it carries in another place (``a, b -> b, a``) would overwrite one before the other is read.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite the bodies in place."""
        changed = False
        for _, module in graph_modules(graph_module):
            for node in module.graph.nodes:
                if node.target is COND:
                    for branch in node.args[1:3]:
                        changed |= _copy_results(getattr(module, branch.target), _is_shared)
                elif node.target is WHILE_LOOP:
                    changed |= _copy_results(getattr(module, node.args[1].target), _is_carried(len(node.args[2])))
                elif node.target is SCAN:
                    changed |= _copy_results(getattr(module, node.args[0].target), _is_carried(len(node.args[1])))
        return PassResult(graph_module, changed)


def _is_shared(results: list[object], position: int) -> bool:
    result = results[position]
    return isinstance(result, Node) and (result.op in ("placeholder", "get_attr") or result in results[:position])


def _is_carried(count: int) -> Callable[[list[object], int], bool]:
    def is_carried_elsewhere(results: list[object], position: int) -> bool:
        result = results[position]
        if position >= count or not isinstance(result, Node) or result.op != "placeholder":
            return False
        placeholders = [node for node in result.graph.nodes if node.op == "placeholder"]
        return placeholders.index(result) not in (position, *range(count, len(placeholders)))

    return is_carried_elsewhere


def _copy_results(body: GraphModule, needs_copy: Callable[[list[object], int], bool]) -> bool:
    output = body.graph.output_node()
    results, structure = pytree.tree_flatten(output.args[0])
    copied = list(results)
    for position, result in enumerate(results):
        if needs_copy(results, position) and isinstance(result.meta["val"], torch.Tensor):
            with body.graph.inserting_before(output):
                copied[position] = body.graph.call_function(exir_ops.edge.aten.clone.default, (result,))
            copied[position].meta["val"] = result.meta["val"]
    output.args = (pytree.tree_unflatten(copied, structure),)
    body.recompile()
    return copied != results
