"""Views with varying sizes in the forms that XNNPACK reads: one size inferred, and no views around products.

XNNPACK's reshape is given numbers, one of which it may infer. The stock partitioner therefore leaves out every view
whose arguments name a symbol, though most such views have one size that varies, and each one left out cuts a delegate
in two. A view with two varying sizes cannot be said to XNNPACK at all, but the common ones only fold batch dimensions
for ``bmm``, which takes three; XNNPACK's own product takes any number, so that these views go.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from .matmul import BATCH_MATMUL
from .reshapes import varying

__all__ = ["DropIdle", "UnfoldProducts", "WriteInferredSizes"]

Shape: TypeAlias = tuple[Any, ...]

_VIEW = ops.edge.aten.view_copy.default
_EXPAND = ops.edge.aten.expand_copy.default
_RESIZE = ops.edge.aten.upsample_bilinear2d.vec
_BMM = ops.edge.aten.bmm.default
_MOST_DIMENSIONS = 6  # XNN_MAX_TENSOR_DIMS


class DropIdle(PassBase):
    """Drop expansions and resizings to the shape that is there; they only copy, and XNNPACK has no such expansion."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Run the pass."""
        for node in list(graph_module.graph.nodes):
            if node.target in (_EXPAND, _RESIZE) and _same(_shape(node), _shape(node.args[0])):
                _drop(graph_module, node)
        return _finished(graph_module)


class UnfoldProducts(PassBase):
    """Replace ``view(bmm(view(a), view(b)))``, whose views only fold batch dimensions, by one product of a and b.

    Products are left alone unless one of the views has several varying sizes, which is where XNNPACK would stop.

    Parameters
    ----------
    is_taken : callable
        Whether a product goes elsewhere before XNNPACK is asked; then it stays as it is.
    """

    def __init__(self, is_taken: Callable[[Node], bool] = lambda node: False) -> None:
        super().__init__()
        self._is_taken = is_taken

    def call(self, graph_module: GraphModule) -> PassResult:
        """Run the pass."""
        for node in list(graph_module.graph.nodes):
            if node.target is _BMM and not self._is_taken(node):
                _unfold(graph_module, node)
        return _finished(graph_module)


class WriteInferredSizes(PassBase):
    """Write -1 for the varying size of every view that has exactly one.

    Views of which another size is 0 stay as they are: what -1 stands for would be unknown.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Run the pass."""
        for node in graph_module.graph.nodes:
            if node.target is _VIEW:
                inferred = _inferred(_shape(node))
                if inferred is not None and len(_shape(node.args[0])) <= _MOST_DIMENSIONS:
                    node.args = (node.args[0], inferred)
        return _finished(graph_module)


def _finished(graph_module: GraphModule) -> PassResult:
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return PassResult(graph_module, True)


def _shape(node: Any) -> Shape:
    return tuple(node.meta["val"].shape)


def _inferred(shape: Shape) -> list[int] | None:
    """The arguments of a view to `shape`, or None if they cannot be numbers."""
    if len(shape) > _MOST_DIMENSIONS or 0 in [size for size in shape if isinstance(size, int)]:
        return None
    if varying(shape) != 1:
        return None
    return [size if isinstance(size, int) else -1 for size in shape]


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes are the same expressions; asking the sizes themselves would make it a condition."""
    return [_expression(size) for size in one] == [_expression(size) for size in other]


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def _drop(graph_module: GraphModule, node: Node) -> None:
    """Its operand takes its place, unless it is an output, which could then be an input or another output."""
    if any(user.op == "output" for user in node.users):
        return
    node.replace_all_uses_with(node.args[0])
    graph_module.graph.erase_node(node)


def _unfold(graph_module: GraphModule, product: Node) -> None:
    left, right = (_unfolded(operand) for operand in product.args)
    views = list(product.users)
    if left is None or right is None or not _same(_shape(left)[:-2], _shape(right)[:-2]):
        return
    shape = (*_shape(left)[:-1], _shape(right)[-1])
    if not views or not all(view.target is _VIEW and _same(_shape(view), shape) for view in views):
        return
    folds = [*product.args, *views]
    if len(shape) > _MOST_DIMENSIONS or all(varying(_shape(fold)) < 2 for fold in folds):
        return
    if free_unbacked_symbols(shape):  # the partitioner takes no such operand, and nothing else runs our product
        return
    with graph_module.graph.inserting_before(product):
        unfolded = graph_module.graph.call_function(BATCH_MATMUL, (left, right))
    unfolded.meta = {**product.meta, "val": views[0].meta["val"]}
    for view in views:
        view.replace_all_uses_with(unfolded)
        graph_module.graph.erase_node(view)
    graph_module.graph.erase_node(product)


def _unfolded(operand: Any) -> Any:
    """What an operand of ``bmm`` was before a view folded its batch dimensions; None if it was no such view."""
    if operand.target is not _VIEW:
        return None
    source = operand.args[0]
    shape = _shape(source)
    if len(shape) < 3 or not _same(shape[-2:], _shape(operand)[-2:]) or source.meta["val"].dtype != torch.float32:
        return None
    return source
