"""Whether the bytes of a value have an upper bound: where they have none, ExecuTorch plans for the example's size."""

from collections.abc import Mapping
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from executorch.exir.schema import TensorShapeDynamism
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.value_ranges import bound_sympy

from ..allocator.errors import ExportError

__all__ = ["Bounds"]

LARGEST_SIZE = 2**31 - 1


class Bounds:
    """Upper bounds of sizes, each looked up once.

    Parameters
    ----------
    names : mapping of sympy.Symbol to str, optional
        What the user calls a symbol.
    """

    def __init__(self, names: Mapping[sympy.Symbol, str] | None = None) -> None:
        self._known: dict[Any, bool] = {}
        self._names = dict(names or {})

    def check(self, name: str, node: Node, spec: TensorSpec) -> None:
        """Refuse a value one of whose sizes has no upper bound.

        Raises
        ------
        ExportError
            Names the symbol, and says how to bound it.
        """
        values = [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
        specs = [leaf for leaf in pytree.tree_leaves(node.meta.get("spec")) if isinstance(leaf, TensorSpec)]
        for value, owner in zip(values, specs, strict=False):
            if owner is spec:
                self._check_value(name, value)
        if spec.shape_dynamism == TensorShapeDynamism.DYNAMIC_UNBOUND:
            raise ExportError(f"{name!r} has a size that only data tells, without an upper bound: torch._check one")

    def check_graph(self, graph_module: GraphModule) -> None:
        """Refuse a graph, bodies included, in which the size of a tensor has no upper bound; see `check`."""
        for module in graph_module.modules():
            for node in module.graph.nodes if isinstance(module, GraphModule) else ():
                for value in pytree.tree_leaves(node.meta.get("val")):
                    if isinstance(value, torch.Tensor):
                        self._check_value(node.name, value)

    def _check_value(self, name: str, value: torch.Tensor) -> None:
        for dim, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and not self._is_bounded(size):
                raise self._unbounded(name, dim, size)

    def _is_bounded(self, size: torch.SymInt) -> bool:
        expr = size.node.expr
        if expr not in self._known:
            upper = bound_sympy(expr, size.node.shape_env.var_to_range).upper
            self._known[expr] = bool(upper.is_Integer and upper <= LARGEST_SIZE)
        return self._known[expr]

    def _unbounded(self, name: str, dim: int, size: torch.SymInt) -> ExportError:
        told = free_unbacked_symbols(size.node.expr)
        expr = size.node.expr.xreplace({symbol: sympy.Symbol(text) for symbol, text in self._names.items()})
        return _error(name, dim, str(expr), ", ".join(sorted(map(str, expr.free_symbols))), told=bool(told))


def _error(name: str, dim: int, expr: str, symbols: str, *, told: bool) -> ExportError:
    way = (
        f"torch._check({symbols} <= LIMIT) in the model, where the number is first known"
        if told
        else "Dim(..., max=LIMIT) in dynamic_shapes"
    )
    return ExportError(
        f"size {dim} of {name!r} is {expr}, and {symbols} has no upper bound, so that no offset can be fixed now. "
        f"Bound it with {way}, or plan at run time (memory='runtime')"
    )
