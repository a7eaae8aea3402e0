"""Bodies of control flow on the time line of their parent, as the emitter writes them into its instructions.

The results of a ``cond`` are where the branch that ran left them. Where each branch makes its own result and nothing
else holds it, the two results and the result of the ``cond`` become one storage: exclusive values overlap, and views of
the result are right without an instruction. Otherwise (a branch gives back what it was given, or one value twice) the
result has no memory of its own and its uses count for everything it may be.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule, Node

from ..allocator.errors import ExportError
from ..loops import COND, MAP, SCAN, WHILE_LOOP
from .timeline import Block, Branches, Loop, Touch

if TYPE_CHECKING:
    from .flatten import Walk

__all__ = ["EMITTED_BODIES", "Value"]

Value: TypeAlias = Any
"""Storages that a node's result may lie in: a tuple of them, or a list of such for a node with several results."""


def _values_of(arguments: Iterable[Any], values: Mapping[Node, Value]) -> list[Value]:
    return [values.get(argument, ()) if isinstance(argument, Node) else () for argument in arguments]


def _body(module: GraphModule, attribute: Any) -> GraphModule:
    body = getattr(module, str(attribute.target))
    assert isinstance(body, GraphModule)
    return body


def _branch(
    walk: "Walk", module: GraphModule, node: Node, prefix: str, block: Block, values: dict[Node, Value]
) -> Value:
    predicate, *attributes, operands = node.args
    given = _values_of(operands, values)
    item_position = walk.step()
    blocks, results = [], []
    for attribute in attributes:
        body, inner = _body(module, attribute), walk.block()
        walk.mirror(body, given)
        results.append(walk.graph(body, f"{prefix}{attribute.target}.", inner, given))
        walk.step()  # the jump over the other branch, after the moves
        walk.finish(inner)
        blocks.append(inner)
    only: tuple[set[int], set[int]] = (set(), set())
    specs = node.meta["spec"]
    specs = specs if isinstance(specs, list | tuple) else [specs]
    made = [
        _chosen(walk, node, spec, pair, position, blocks, only, block, prefix)
        for position, (spec, pair) in enumerate(zip(specs, zip(*results, strict=True), strict=True))
    ]
    uses = walk.flat(_values_of([predicate], values))
    block.items.append(Branches(item_position, uses, blocks[0], blocks[1], only))
    return made


def _chosen(
    walk: "Walk",
    node: Node,
    spec: Any,
    pair: tuple[Value, Value],
    position: int,
    blocks: Sequence[Block],
    only: tuple[set[int], set[int]],
    block: Block,
    prefix: str,
) -> Value:
    """Where one result of a ``cond`` is: one storage with those of its branches, or in whichever of theirs."""
    if not isinstance(spec, TensorSpec):
        return ()
    own = walk.made(node, spec, prefix, block)
    if own and all(map(walk.is_local, pair, blocks)):
        return (walk.storages.join([*own, *pair[0], *pair[1]], block.number, f"{prefix}{node.name} {position}"),)
    for owner in own:
        walk.storages.members[owner].clear()  # never where the result is: it stays without memory
    found: list[int] = []
    for value, inside, reached in zip(pair, blocks, only, strict=True):
        for storage in walk.flat(value):
            reached |= {storage} if inside.number <= walk.storages.block[storage] <= inside.last_number else set()
            found.append(storage)
    return walk.roots(found)


def _loop(walk: "Walk", module: GraphModule, node: Node, prefix: str, block: Block, values: dict[Node, Value]) -> Value:
    """A ``map``, ``scan`` or ``while_loop``: results live from before the first round, rows within one."""
    graphs, start, rows, operands = _parts(node)
    position = walk.step()
    specs = node.meta["spec"]
    specs = list(specs) if isinstance(specs, list | tuple) else [specs]
    _check_rows(f"{prefix}{node.name}", pytree.tree_leaves(node.meta.get("val"))[len(start) :])
    for spec in specs[len(start) :]:
        walk.stack(spec)
    results = walk.made(node, specs, prefix, block)
    held = walk.flat(results)
    block.items.append(Touch(position, (*walk.flat(_values_of([*start, *rows], values)), *held), held))
    inner = walk.block()
    slices, body = [], _body(module, graphs[-1])
    if rows:
        placeholders = [item for item in body.graph.nodes if item.op == "placeholder"]
        taken = placeholders[len(start) : len(start) + len(rows)]
        inside = f"{prefix}{graphs[-1].target}."
        slices = [walk.made(item, item.meta.get("spec"), inside, inner) for item in taken]
        made = walk.flat(slices)
        inner.items.append(Touch(walk.step(), (*walk.flat(_values_of(rows, values)), *made), made))
    given = [*results[: len(start)], *slices, *_values_of(operands, values)]
    kept: list[Value] = []
    for attribute in graphs:
        graph = _body(module, attribute)
        walk.mirror(graph, given)
        kept = walk.graph(graph, f"{prefix}{attribute.target}.", inner, given)
        inner.items.append(Touch(walk.step(), (*walk.flat(kept), *(held if attribute is graphs[-1] else ()))))
    walk.finish(inner)
    block.items.append(Loop(inner.start, held, inner))
    return results


def _check_rows(name: str, stacked: Iterable[Any]) -> None:
    """Refuse rows whose own sizes vary: ``et_copy_index`` wants them as large as they may be, and no other."""
    for value in stacked:
        for dim, size in enumerate(value.shape[1:] if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                raise ExportError(
                    f"the loop {name!r} stacks rows whose size {dim} varies ({size}), and the stock runtime stacks "
                    "rows of one size only: let only the number of rows vary, or plan at run time (memory='runtime')"
                )


def _parts(node: Node) -> tuple[list[Any], Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Bodies, start values, rows and operands of a loop."""
    arguments: Any = node.args
    if node.target is WHILE_LOOP:
        condition, body, start, operands = arguments
        return [condition, body], start, (), operands
    if node.target is SCAN:
        body, start, rows, operands = arguments
        return [body], start, rows, operands
    body, rows, operands = arguments
    return [body], (), rows, operands


EMITTED_BODIES: dict[Any, Callable[..., Value]] = {COND: _branch, MAP: _loop, SCAN: _loop, WHILE_LOOP: _loop}
"""What puts each kind of control flow on the time line."""
