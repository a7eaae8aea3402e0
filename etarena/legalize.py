"""Rewrites of the edge program for what the stock CPU kernels cannot run as it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401  (registers the copy operator)
import torch
import torch.utils._pytree as pytree
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, NodeMetadata, PassBase, PassResult, ProxyValue
from torch.fx import GraphModule, Node

from .caches import CACHE_OPERATORS
from .devices.placement import TO_DEVICE
from .ops import resize as _resize  # noqa: F401  (defines the operator)
from .traced import fake_tensors

__all__ = ["MatchDimOrders", "ReplaceMissingKernels"]

RESIZE = exir_ops.edge.etarena.resize2d.default


class ReplaceMissingKernels(PassBase):
    """Replace operators that have no kernel by equals that have one.

    ``empty_permuted``, which ``empty_like`` decomposes to, is ``empty``: its contents are undefined in any layout.
    ``sort`` is ``topk`` of everything.
    """

    REPLACED = frozenset({exir_ops.edge.aten.empty_permuted.default, exir_ops.edge.aten.sort.default})

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite `graph_module` in place."""
        changed = False
        for module in graph_module.modules():
            for node in list(module.graph.nodes) if isinstance(module, GraphModule) else ():
                if node.target is exir_ops.edge.aten.empty_permuted.default and _is_default_order(node.meta["val"]):
                    node.target = exir_ops.edge.aten.empty.memory_format
                    node.args = (node.args[0],)
                    changed = True
                elif node.target is exir_ops.edge.aten.sort.default:
                    self._sort_by_topk(node)
                    changed = True
        return PassResult(graph_module, changed)

    def _sort_by_topk(self, node: Node) -> None:
        source = node.args[0]
        dim = node.args[1] if len(node.args) > 1 else -1
        descending = node.args[2] if len(node.args) > 2 else False
        value = source.meta["val"]
        dim %= max(value.dim(), 1)  # the runtime's sym_size takes no dimension counted from the end
        if value.dim() == 0:
            count = 1
        elif isinstance(value.shape[dim], int):
            count = value.shape[dim]
        else:
            with node.graph.inserting_before(node):
                count = node.graph.call_function(torch.ops.aten.sym_size.int, (source, dim % value.dim()))
            count.meta["val"] = value.shape[dim]
        node.target = exir_ops.edge.aten.topk.default
        node.args = (source, count, dim, descending, True)


class MatchDimOrders(ExportPass):
    """Give every operator the default dim order except where a channels-last kernel is known to be right.

    Kernels of pointwise operators and of our resizing take channels-last tensors if all operands are; a number or a
    vector of channels beside an image is refused. Many other kernels (``flip``, ``view_copy``) read a channels-last
    tensor as if it were contiguous, silently. Copies between dim orders are left alone, and so are delegates and what
    reads a growable cache as it lies. What control flow takes and what its bodies return is in the default order, so
    that all branches and rounds agree.
    """

    COPIES = frozenset(
        {
            exir_ops.edge.dim_order_ops._to_dim_order_copy.default,
            exir_ops.edge.dim_order_ops._clone_dim_order.default,
            torch.ops.aten.sym_size.int,
            *CACHE_OPERATORS,
            TO_DEVICE,
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def call(self, graph_module: GraphModule) -> PassResult:
        """Trace `graph_module` again, unless all of it is in the default dim order already."""
        modules = [module for module in graph_module.modules() if isinstance(module, GraphModule)]
        values = [value for module in modules for node in module.graph.nodes for value in fake_tensors(node)]
        if all(map(_is_default_order, values)):
            return PassResult(graph_module, False)
        return super().call(graph_module)

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> ProxyValue:
        """Trace one operator, its operands copied into another dim order where needed."""
        if op is torch.ops.aten.copy_.default:
            target, source, *rest = args
            if _order(source.data) != _order(target.data):
                source = self._copy(source, _order(target.data))
            return super().call_operator(op, (target, source, *rest), kwargs, meta)
        orders = {_order(leaf.data) for leaf in pytree.tree_leaves((args, kwargs)) if _is_tensor(leaf)}
        is_pointwise = torch.Tag.pointwise in getattr(op, "tags", ())
        is_known = len(orders) == 1 and _is_channels_last(next(iter(orders)))
        if op not in self.COPIES and not ((is_pointwise or op is RESIZE) and is_known):
            args, kwargs = pytree.tree_map(self._in_default_order, (args, kwargs))
        return super().call_operator(op, args, kwargs, meta)

    def call_cond(self, pred: Any, true_fn: Any, false_fn: Any, inputs: Any, meta: NodeMetadata) -> ProxyValue:
        """Trace a ``cond``, operands and results in the default order."""
        with self._body():
            return super().call_cond(pred, true_fn, false_fn, self._all_in_default_order(inputs), meta)

    def call_while(self, cond_fn: Any, body_fn: Any, start: Any, operands: Any, meta: NodeMetadata) -> ProxyValue:
        """Trace a ``while_loop``, operands and results in the default order."""
        with self._body():
            inputs = map(self._all_in_default_order, (start, operands))
            return super().call_while(cond_fn, body_fn, *inputs, meta)

    def call_map(self, f: Any, rows: Any, operands: Any, meta: NodeMetadata) -> ProxyValue:
        """Trace a ``map``, operands and results in the default order."""
        with self._body():
            return super().call_map(f, *map(self._all_in_default_order, (rows, operands)), meta)

    def call_scan(self, combine_fn: Any, start: Any, rows: Any, operands: Any, meta: NodeMetadata) -> ProxyValue:
        """Trace a ``scan``, operands and results in the default order."""
        with self._body():
            inputs = map(self._all_in_default_order, (start, rows, operands))
            return super().call_scan(combine_fn, *inputs, meta)

    def output(self, results: Any, meta: NodeMetadata) -> ProxyValue:
        """Return the results; those of a body in the default order."""
        return super().output(self._all_in_default_order(results) if self._depth else results, meta)

    @contextmanager
    def _body(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _all_in_default_order(self, values: Any) -> Any:
        return pytree.tree_map(self._in_default_order, values)

    def _in_default_order(self, leaf: Any) -> Any:
        if not _is_tensor(leaf) or _is_default_order(leaf.data):
            return leaf
        return self._copy(leaf, tuple(range(leaf.data.dim())))

    def _copy(self, value: ProxyValue, order: tuple[int, ...]) -> ProxyValue:
        copy = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
        return super().call_operator(copy, (value,), {"dim_order": list(order)}, NodeMetadata(value.node.meta))


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, ProxyValue) and leaf.is_tensor()


def _order(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(dim) for dim in value.dim_order())


def _is_channels_last(order: tuple[int, ...]) -> bool:
    """Whether kernels know the order; they know no others, such as that of a growable cache."""
    return order in ((0, 2, 3, 1), tuple(range(len(order))))


def _is_default_order(value: torch.Tensor) -> bool:
    return _order(value) == tuple(range(value.dim()))
