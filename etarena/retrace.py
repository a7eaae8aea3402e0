"""Trace the bodies of control flow again, as every ExecuTorch pass does, without losing symbols.

The stock passes trace a loop's body with the start values: an int that changes from round to round becomes the number
it starts with, and a row of ``map`` is taken from a list of rows, which fixes their number. They also run the whole
operator again, which invents new symbols for results that are known only at run time. Here a body is traced with what
it was traced with before, and results keep the sizes they had.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from executorch.exir.pass_base import NodeMetadata, ProxyValue, _ExportPassBase
from executorch.exir.tracer import _default_decomposition_table
from torch._export.pass_base import _ExportPassBaseDeprecatedDoNotUse as TorchPassBase
from torch._export.pass_infra.proxy_value import ProxyValue as TorchProxyValue
from torch.export import ExportedProgram
from torch.fx import GraphModule

from .loops import CONTROL_FLOW

__all__ = ["decomposed_bodies", "keeping_symbols", "separate_operands"]

PassBase: TypeAlias = _ExportPassBase | TorchPassBase
PROXIES = (ProxyValue, TorchProxyValue)


@contextmanager
def keeping_symbols() -> Iterator[None]:
    """Within the block, all passes trace control flow as described above; they are as before afterwards."""
    replaced = [
        (_ExportPassBase, "call_while", _call_while),
        (_ExportPassBase, "call_map", _call_map),
        (_ExportPassBase, "call_scan", _call_scan),
        (TorchPassBase, "call_map", _call_map),
        (TorchPassBase, "_fx", _loops_first(TorchPassBase._fx)),
    ]
    original = [(base, name, getattr(base, name)) for base, name, _ in replaced]
    for base, name, function in replaced:
        setattr(base, name, function)
    try:
        yield
    finally:
        for base, name, function in original:
            setattr(base, name, function)


def decomposed_bodies(program: ExportedProgram) -> ExportedProgram:
    """`program` with the bodies of its control flow in core operators.

    Partitioners ask for operators to be kept for them (``linear``) and do not look into bodies: there nobody takes
    them. They give a parameter with several users a duplicate for each, except where it is an operand of control flow:
    a copy is put in between, which `body_results` takes out again.
    """
    targets = {node.target for node in program.graph.nodes}
    if not targets & CONTROL_FLOW:
        return program
    kept, decomposed = program.run_decompositions({}), program.run_decompositions(_default_decomposition_table())
    nodes = [[node for node in one.graph.nodes if node.target in CONTROL_FLOW] for one in (kept, decomposed)]
    for before, after in zip(*nodes, strict=True):
        for body, new in zip(before.args, after.args, strict=True):
            if isinstance(body, torch.fx.Node) and body.op == "get_attr":
                setattr(kept.graph_module, body.target, getattr(decomposed.graph_module, new.target))
        before.args = pytree.tree_map_only(torch.fx.Node, partial(_copied_operand, before), before.args)
    kept.graph_module.recompile()
    return kept


def separate_operands(program: ExportedProgram) -> None:
    """Copy, in place, what control flow takes twice and what a body returns as it got it: torch lowers neither."""
    for module in program.graph_module.modules():
        for node in list(module.graph.nodes) if isinstance(module, GraphModule) else ():
            if node.target in CONTROL_FLOW:
                seen: set[torch.fx.Node] = set()
                node.args = pytree.tree_map_only(torch.fx.Node, partial(_second_copied, node, seen), node.args)
                for body in node.all_input_nodes:
                    if body.op == "get_attr" and isinstance(getattr(module, body.target), GraphModule):
                        output = getattr(module, body.target).graph.output_node()
                        copied = partial(_copied_operand, output)
                        output.args = pytree.tree_map_only(torch.fx.Node, copied, output.args)
        if isinstance(module, GraphModule):
            module.recompile()


def _second_copied(user: torch.fx.Node, seen: set[torch.fx.Node], operand: torch.fx.Node) -> torch.fx.Node:
    if operand not in seen or not isinstance(operand.meta.get("val"), torch.Tensor):
        seen.add(operand)
        return operand
    return _copy_before(user, operand)


def _copied_operand(user: torch.fx.Node, operand: torch.fx.Node) -> torch.fx.Node:
    if operand.op != "placeholder" or not isinstance(operand.meta["val"], torch.Tensor):
        return operand
    return _copy_before(user, operand)


def _copy_before(user: torch.fx.Node, operand: torch.fx.Node) -> torch.fx.Node:
    with user.graph.inserting_before(user):
        copy = user.graph.call_function(torch.ops.aten.clone.default, (operand,))
    copy.meta["val"] = operand.meta["val"]
    return copy


def _loops_first(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's own passes do not know loops and leave their bodies as they are."""

    def traced(
        self: TorchPassBase, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        if target is torch.ops.higher_order.while_loop:
            condition, body, start, operands = args
            return _call_while(self, condition, body, start, operands, meta)
        if target is torch.ops.higher_order.scan:
            body, start, rows, operands = args
            return _call_scan(self, body, start, rows, operands, meta)
        return plain(self, kind, target, args, kwargs, meta)

    return traced


def _call_while(
    self: PassBase,
    condition: GraphModule,
    body: GraphModule,
    start: Sequence[Any],
    operands: Sequence[Any],
    meta: NodeMetadata,
) -> ProxyValue:
    traced = [node.meta["val"] for node in body.graph.nodes if node.op == "placeholder"]
    inputs = (*(_carried(value, old) for value, old in zip(start, traced, strict=False)), *operands)
    graphs = [self.call_submodule(graph, inputs).graph_module for graph in (condition, body)]
    results = tuple(
        new if isinstance(new, torch.Tensor) else old
        for new, old in zip(_results(graphs[1]), meta.data["val"], strict=True)
    )
    return _record(self, torch.ops.higher_order.while_loop, (*graphs, tuple(start), tuple(operands)), results, meta)


def _call_map(
    self: PassBase, body: GraphModule, rows: Sequence[ProxyValue], operands: Sequence[Any], meta: NodeMetadata
) -> ProxyValue:
    graph = self.call_submodule(body, (*map(_row, rows), *operands)).graph_module
    results = _stacked(_results(graph), rows)
    return _record(self, torch.ops.higher_order.map_impl, (graph, list(rows), list(operands)), results, meta)


def _call_scan(
    self: PassBase,
    body: GraphModule,
    start: Sequence[ProxyValue],
    rows: Sequence[ProxyValue],
    operands: Sequence[Any],
    meta: NodeMetadata,
) -> ProxyValue:
    graph = self.call_submodule(body, (*map(_carried, start), *map(_row, rows), *operands)).graph_module
    results = _results(graph)
    n = len(start)
    made = [*results[:n], *_stacked(results[n:], rows)]
    args = (graph, list(start), list(rows), list(operands))
    return _record(self, torch.ops.higher_order.scan, args, made, meta)


def _carried(value: Any, traced: Any = None) -> Any:
    """What a carried value is in any round: never a constant."""
    data = value.data if isinstance(value, PROXIES) else value
    if not isinstance(data, torch.Tensor):
        return traced
    data = data.clone()
    data.constant = None
    return data


def _row(rows: ProxyValue) -> torch.Tensor:
    return rows.data.new_empty(rows.data.shape[1:])


def _stacked(results: Sequence[torch.Tensor], rows: Sequence[ProxyValue]) -> list[torch.Tensor]:
    return [result.new_empty((rows[0].data.shape[0], *result.shape)) for result in results]


def _results(graph: GraphModule) -> list[Any]:
    return [
        result.meta["val"] if isinstance(result, torch.fx.Node) else result
        for result in pytree.tree_leaves(graph.graph.output_node().args[0])
    ]


def _record(
    self: PassBase, target: Any, args: tuple[Any, ...], results: Sequence[Any], meta: NodeMetadata
) -> ProxyValue:
    """Write the operator into the graph that is being traced, with results that are known already."""
    proxies = pytree.tree_map_only(PROXIES, lambda value: value.proxy, args)
    proxy = self.tracer.create_proxy("call_function", target, proxies, {})
    proxy.node.meta.update(meta.data)
    self.tracer.set_metadata(proxy.node, results)
    return (ProxyValue if isinstance(self, _ExportPassBase) else TorchProxyValue)(results, proxy)
