"""What control flow takes and gives: operands as they are, results in memory of their own."""

from collections.abc import Callable

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401  (registers the copy operator)
import torch
import torch.utils._pytree as pytree
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import PassBase, PassResult
from torch.fx import GraphModule, Node

from .allocator.errors import ExportError
from .loops import COND, CONTROL_FLOW, SCAN, WHILE_LOOP
from .unplanned import graph_modules

__all__ = ["CopySharedResults", "PassOperands", "refuse_writing_bodies"]


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


class PassOperands(PassBase):
    """Give control flow its operands instead of copies of them: bodies do not write to operands."""

    COPIES = frozenset({exir_ops.edge.aten.clone.default, exir_ops.edge.dim_order_ops._clone_dim_order.default})

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite the operands in place."""
        changed = False
        for _, module in graph_modules(graph_module):
            for node in list(module.graph.nodes):
                if node.target in CONTROL_FLOW:
                    for operand in node.all_input_nodes:
                        if self._is_copied(operand):
                            node.replace_input_with(operand, operand.args[0])
                            if not operand.users:
                                module.graph.erase_node(operand)
                            changed = True
            module.recompile()
        return PassResult(graph_module, changed)

    def _is_copied(self, operand: Node) -> bool:
        if operand.target not in self.COPIES or operand.args[0].op != "placeholder":
            return False
        return operand.meta["val"].dim_order() == operand.args[0].meta["val"].dim_order()


def refuse_writing_bodies(graph_module: GraphModule, origin: str = "") -> None:
    """Check that no body of control flow writes to what it is given; torch cannot make such a body functional.

    Raises
    ------
    ExportError
        If one does, with its operator and the way out.
    """
    for node in graph_module.graph.nodes:
        if origin and isinstance(node.target, torch._ops.OpOverload):
            for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
                if argument.is_write and _first_source(value).op == "placeholder":
                    raise ExportError(
                        f"the body of {origin!r} changes a tensor from outside in place ({node.target}); return the "
                        "new value from the body instead: carry it through a loop, return it from a branch"
                    )
        if node.target in CONTROL_FLOW:
            for body in node.args:
                if isinstance(body, Node) and body.op == "get_attr":
                    refuse_writing_bodies(getattr(graph_module, body.target), node.name)


def _first_source(node: Node) -> Node:
    """What a chain of views begins with."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target.is_view:
        node = node.args[0]
    return node


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
