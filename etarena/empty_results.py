"""Operators whose stock kernels go wrong where there are no elements.

The kernel of ``cat`` leaves operands without elements out of its sum: two of [0, 3] side by side give it [0, 0] instead
of [0, 6], and the next operator that minds the shape fails. A view with the planned sizes stands after each such
operator; no element moves. ``amax`` and ``amin`` refuse such a tensor; ``max`` and ``min`` along a dimension take it.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import PassBase, PassResult
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_or_true

__all__ = ["AllowNoElements", "keep_empty_operands"]

EXTREMES = {
    exir_ops.edge.aten.amax.default: exir_ops.edge.aten.max.dim,
    exir_ops.edge.aten.amin.default: exir_ops.edge.aten.min.dim,
}


def keep_empty_operands(prune: Callable[[Any, GraphModule, Node], None]) -> Callable[[Any, GraphModule, Node], None]:
    """The stock pass that drops operands of a ``cat`` known to be empty, but not all of them.

    It would put a ``full`` with the traced sizes in place of what is left, which no emitter can write where they vary.
    """

    def remove_empty_tensors_from_cat(self: Any, graph_module: GraphModule, cat: Node) -> None:
        if any(guard_or_true(source.meta["val"].numel() != 0) for source in cat.args[0]):
            prune(self, graph_module, cat)

    return remove_empty_tensors_from_cat


class AllowNoElements(PassBase):
    """Rewrite every such operator that may meet a tensor without elements."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite `graph_module` in place."""
        changed = False
        for module in graph_module.modules():
            for node in list(module.graph.nodes) if isinstance(module, GraphModule) else ():
                if node.target is exir_ops.edge.aten.cat.default and _is_missized(node):
                    _view_with_traced_sizes(node)
                    changed = True
                elif node.target in EXTREMES and _reduces_nothing(node):
                    _reduce_by_dimension(node)
                    changed = True
        return PassResult(graph_module, changed)


def _dim(cat: Node) -> int:
    given = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
    return int(given) % cat.meta["val"].dim()


def _operands(cat: Node) -> list[Node]:
    """What is concatenated; vectors without elements, which go with tensors of any rank, left out."""
    return [node for node in cat.args[0] if node.meta["val"].dim() == cat.meta["val"].dim()]


def _is_missized(cat: Node) -> bool:
    """Whether a size other than the concatenated one may be zero: then all operands are empty, their sum is lost."""
    return any(_may_be_zero(size) for dim, size in enumerate(cat.meta["val"].shape) if dim != _dim(cat))


def _may_be_zero(size: int | torch.SymInt) -> bool:
    if isinstance(size, int):
        return size == 0
    environment: ShapeEnv = size.node.shape_env
    return bool(environment.bound_sympy(size.node.expr).lower <= 0)


def _view_with_traced_sizes(cat: Node) -> None:
    graph, dim, operands = cat.graph, _dim(cat), _operands(cat)
    value = cat.meta["val"]

    def size_of(source: Node, position: int) -> Any:
        known = source.meta["val"].shape[position]
        if isinstance(known, int):
            return known
        return _traced(graph.call_function(torch.ops.aten.sym_size.int, (source, position)), known)

    def plus(left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        numbers = [term.meta["val"] if isinstance(term, Node) else term for term in (left, right)]
        return _traced(graph.call_function(operator.add, (left, right)), numbers[0] + numbers[1])

    with graph.inserting_after(cat):
        view = graph.call_function(exir_ops.edge.aten.view_copy.default)
    with graph.inserting_before(view):
        sizes = [size_of(operands[0], position) for position in range(value.dim())]
        sizes[dim] = reduce(plus, (size_of(source, dim) for source in operands))
    cat.replace_all_uses_with(view)
    view.args = (cat, sizes)
    view.meta = dict(cat.meta)


def _reduces_nothing(node: Node) -> bool:
    return bool(_reduced(node)) and any(map(_may_be_zero, node.meta["val"].shape))


def _reduced(node: Node) -> list[int]:
    """Dimensions that are reduced, the last first; none if all are, which PyTorch refuses for an empty tensor too."""
    rank = node.args[0].meta["val"].dim()
    return sorted({dim % rank for dim in (node.args[1] if len(node.args) > 1 else ())}, reverse=True) if rank else []


def _reduce_by_dimension(node: Node) -> None:
    graph, value = node.graph, node.args[0]
    keepdim = node.args[2] if len(node.args) > 2 else False
    for dim in _reduced(node):
        with graph.inserting_before(node):
            both = graph.call_function(EXTREMES[node.target], (value, dim, keepdim))
            both.meta["val"] = torch.max(value.meta["val"], dim, keepdim)
            value = _traced(graph.call_function(operator.getitem, (both, 0)), both.meta["val"][0])
    node.replace_all_uses_with(value)
    graph.erase_node(node)


def _traced(node: Node, number: Any) -> Node:
    node.meta["val"] = number
    return node
