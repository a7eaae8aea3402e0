"""One time line over a graph and the bodies of its control flow, in the order in which ExecuTorch emits them.

The emitter writes the bodies of ``cond``, ``map``, ``scan`` and ``while_loop`` into the instructions of their parent, so
there is one sequence of positions for the whole tree. A `Block` is a part of it that runs as a whole; the two branches
of a ``cond`` are blocks of which one runs, the body of a loop is one that runs any number of times.

The results of a ``cond`` are where the branch that ran left them. Where each branch makes its own result and nothing
else holds it, the two results and the result of the ``cond`` become one storage: exclusive values overlap, and views of
the result are right without an instruction. Otherwise (a branch gives back what it was given, or one value twice) the
result has no memory of its own and its uses count for everything it may be.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from executorch.exir import memory
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.memory_planning import _alias_inplace_result_specs
from executorch.exir.operator.convert import get_out_args_from_opoverload, is_inplace_variant, is_out_variant
from executorch.exir.passes.memory_planning_pass import _move_memory_meta_to_spec
from executorch.exir.schema import TensorShapeDynamism
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule, Node

from ..allocator.errors import ExportError
from ..loops import COND, MAP, SCAN, WHILE_LOOP
from .storages import Storages

__all__ = ["Block", "Branches", "Item", "Loop", "Scratch", "Timeline", "Touch", "flatten"]

Value: TypeAlias = Any
"""Storages that a node's result may lie in: a tuple of them, or a list of such for a node with several results."""

Place: TypeAlias = Callable[[Node, TensorSpec], bool]

_GETITEM, _INPLACE, _OTHER = "getitem", "inplace", "other"


@dataclass(slots=True)
class Touch:
    """One instruction: storages it reads or writes, and those of them that it makes."""

    position: int
    uses: tuple[int, ...]
    makes: tuple[int, ...] = ()


@dataclass(slots=True)
class Branches:
    """Two blocks of which one runs; `only` are storages that reach the end of one of them alone."""

    position: int
    predicate: tuple[int, ...]
    true: "Block"
    false: "Block"
    only: tuple[set[int], set[int]]


@dataclass(slots=True)
class Loop:
    """A block that runs again and again; `results` hold what is carried, from before the first round."""

    position: int
    results: tuple[int, ...]
    body: "Block"


Item: TypeAlias = Touch | Branches | Loop


@dataclass(slots=True)
class Block:
    """What runs one after the other, at the positions from `start` up to `end`; blocks inside have higher numbers."""

    number: int
    start: int = 0
    end: int = 0
    last_number: int = 0
    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Scratch:
    """Bytes that a delegate needs while it runs."""

    delegate: str
    name: str
    storage: int


@dataclass
class Timeline:
    """A flattened tree: the outermost block, its storages, the delegates' scratch, and every graph in the tree."""

    block: Block
    storages: Storages
    outputs: tuple[int, ...]
    scratch: list[Scratch]
    graphs: list[GraphModule]
    uses_xnnpack: bool


def flatten(
    graph_module: GraphModule,
    is_planned: Callable[[Node], tuple[bool, bool]],
    unplanned: frozenset[int],
    scratch_bytes: Callable[[str, Node], int],
    check: Callable[[str, Node, TensorSpec], None],
) -> Timeline:
    """Lay the tree of a method out in one line.

    Parameters
    ----------
    graph_module : GraphModule
        With out variants; the specs of ``memory.alloc`` nodes are set here, as the stock pass does.
    is_planned : callable
        Whether a placeholder gets memory, and whether it keeps its contents between calls.
    unplanned : frozenset of int
        Identities of specs that the caller will provide memory for.
    scratch_bytes : callable
        Bytes that a delegate, by its id and node, needs during its call.
    check : callable
        Raises if the bytes of a spec (with a dynamic shape) are not known.
    """
    walk = _Walk(unplanned, scratch_bytes, check)
    block = Block(0)
    inputs: list[Value] = []
    made: list[int] = []
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            planned, persistent = is_planned(node)
            value = walk.made(node, node.meta.get("spec"), "", block, persistent=persistent) if planned else ()
            inputs.append(value)
            if not persistent:
                made += walk.flat(value)
    block.items.append(Touch(0, (), tuple(made)))
    outputs = walk.graph(graph_module, "", block, inputs)
    block.end = walk.step()
    found = walk.roots(storage for value in outputs for storage in walk.flat(value))
    return Timeline(block, walk.storages, found, walk.scratch, walk.graphs, walk.uses_xnnpack)


class _Walk:
    def __init__(
        self,
        unplanned: frozenset[int],
        scratch_bytes: Callable[[str, Node], int],
        check: Callable[[str, Node, TensorSpec], None],
    ) -> None:
        self.storages = Storages()
        self.scratch: list[Scratch] = []
        self.graphs: list[GraphModule] = []
        self.uses_xnnpack = False
        self._unplanned = unplanned
        self._scratch_bytes = scratch_bytes
        self._check = check
        self._position = 0
        self._blocks = 0
        self._stacked: set[int] = set()

    def step(self) -> int:
        self._position += 1
        return self._position

    def roots(self, storages: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(map(self.storages.root, storages)))

    def flat(self, value: Value) -> tuple[int, ...]:
        if isinstance(value, list):
            return tuple(storage for item in value for storage in self.flat(item))
        return value

    def made(self, node: Node, spec: Any, prefix: str, block: Block, *, persistent: bool = False) -> Value:
        """What a node makes, by its spec."""
        if isinstance(spec, TensorSpec):
            if spec.const or id(spec) in self._unplanned:
                return ()
            name = prefix + node.name
            if spec.shape_dynamism:
                self._check(name, node, spec)
            return (self.storages.add(spec, name, block.number, persistent=persistent),)
        if isinstance(spec, list | tuple):
            return [self.made(node, item, prefix, block) for item in spec]
        return ()

    def graph(self, module: GraphModule, prefix: str, block: Block, inputs: Sequence[Value]) -> list[Value]:
        """Append what a graph does to a block; returns where its results are."""
        self.graphs.append(module)
        values: dict[Node, Value] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            op = node.op
            if op == "call_function":
                target = node.target
                if target is memory.alloc:
                    continue  # emits nothing; the operator that writes it is next
                if target is memory.view:
                    values[node] = values[node.args[0]]
                    if self._stacked:
                        self._view_of_stack(node)
                elif target in _CONTROL_FLOW:
                    values[node] = _CONTROL_FLOW[target](self, module, node, prefix, block, values)
                else:
                    values[node] = self._call(module, node, target, prefix, block, values)
            elif op == "placeholder":
                values[node] = next(given)
            elif op == "output":
                return [values.get(leaf, ()) for leaf in pytree.tree_leaves(node.args[0]) if leaf is not None]
            else:
                values[node] = ()
        raise ExportError(f"the graph {prefix or 'of the method'} has no output, so nothing says what it computes")

    def _call(
        self, module: GraphModule, node: Node, target: Any, prefix: str, block: Block, values: dict[Node, Value]
    ) -> Value:
        role = _role(target)
        if role is _GETITEM:
            source = values[node.args[0]]
            return source[node.args[1]] if isinstance(source, list) else source
        made: Value = ()
        if role is _INPLACE:
            _alias_inplace_result_specs(node)
            made = self._aliased(node.meta.get("spec"))
        elif role is _OTHER:
            made = self.made(node, node.meta.get("spec"), prefix, block)
        else:
            made = self._allocated(node, role, prefix, block, values)
        uses: list[int] = []
        for source in node.all_input_nodes:
            value = values.get(source)
            if value is None:
                raise ExportError(f"{prefix}{node.name} reads {source.name} before it is computed: sort the graph")
            if value:
                uses += self.flat(value) if isinstance(value, list) else value
        fresh = () if role is _INPLACE else self.flat(made)
        if target is executorch_call_delegate:
            uses += self._delegate(module, node, prefix, block)
        block.items.append(Touch(self.step(), (*uses, *fresh), fresh))
        return made

    def stack(self, spec: Any) -> None:
        """Let a result that a loop fills row by row grow, as the emitter needs it to (``et_copy_index`` resizes it)."""
        if isinstance(spec, TensorSpec):
            spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND
            self._stacked.add(id(spec))

    def _view_of_stack(self, view: Node) -> None:
        """A view of such a result was made when that was not to grow, and cannot follow: it becomes an instruction."""
        base = view.args[0]
        assert isinstance(base, Node)
        if id(base.meta.get("spec")) in self._stacked:
            old = view.meta["spec"]
            shape, dtype = object.__getattribute__(old, "shape"), base.meta["spec"].scalar_type
            view.meta["spec"] = TensorSpec(dtype, torch.Size(shape))

    def _aliased(self, spec: Any) -> Value:
        if isinstance(spec, list | tuple):
            return [self._aliased(item) for item in spec]
        storage = self.storages.of(spec) if isinstance(spec, TensorSpec) else None
        return () if storage is None else (storage,)

    def _allocated(
        self, node: Node, names: Sequence[str], prefix: str, block: Block, values: dict[Node, Value]
    ) -> Value:
        """Give the ``memory.alloc`` nodes of an out variant their specs and storages."""
        specs = node.meta["spec"]
        if len(names) == 1:
            allocation = node.kwargs[names[0]]
            assert isinstance(allocation, Node)
            allocation.meta["spec"] = specs
            if "_share_alloc_with_arg_idx" in node.meta or "_shared_alloc_offset" in node.meta:
                _move_memory_meta_to_spec(node)
            made = values[allocation] = self.made(node, specs, prefix, block)
            return made
        results = []
        left = iter(specs if isinstance(specs, list | tuple) else [specs])
        for name in names:
            allocation = node.kwargs[name]
            if isinstance(allocation, Node):
                spec = allocation.meta["spec"] = next(left)
                made = values[allocation] = self.made(node, spec, prefix, block)
                results.append(made)
        return results

    def _delegate(self, module: GraphModule, node: Node, prefix: str, block: Block) -> list[int]:
        """The scratch of a delegate's call, as a storage that only the call touches."""
        attribute = node.args[0]
        assert isinstance(attribute, Node)
        backend = str(getattr(module, str(attribute.target)).backend_id)
        self.uses_xnnpack |= "xnnpack" in backend.lower()
        nbytes = self._scratch_bytes(backend, node)
        if not nbytes:
            return []
        name = prefix + node.name
        storage = self.storages.add_bytes(nbytes, f"{name} scratch", block.number)
        self.scratch.append(Scratch(backend, name, storage))
        return [storage]

    def block(self) -> Block:
        self._blocks += 1
        return Block(self._blocks, self._position + 1)

    def finish(self, block: Block) -> None:
        block.end = self._position + 1
        block.last_number = self._blocks

    def is_local(self, value: Value, block: Block) -> bool:
        """Whether a value was made by a block itself, at one place that nothing else shares."""
        if not isinstance(value, tuple) or len(value) != 1:
            return False
        storage = self.storages.root(value[0])
        return self.storages.block[storage] == block.number and self.storages.is_whole(storage)

    def mirror(self, graph: GraphModule, values: Sequence[Value]) -> None:
        """Tell the specs of a body's placeholders where the values are that they stand for."""
        placeholders = (node for node in graph.graph.nodes if node.op == "placeholder")
        for node, value in zip(placeholders, values, strict=True):
            spec = node.meta.get("spec")
            if isinstance(spec, TensorSpec) and self.storages.of(spec) is None and len(value) == 1:
                if self.storages.is_whole(value[0]):
                    self.storages.mirror(spec, value[0])


def _values_of(arguments: Iterable[Any], values: Mapping[Node, Value]) -> list[Value]:
    return [values.get(argument, ()) if isinstance(argument, Node) else () for argument in arguments]


def _body(module: GraphModule, attribute: Any) -> GraphModule:
    body = getattr(module, str(attribute.target))
    assert isinstance(body, GraphModule)
    return body


def _branch(
    walk: _Walk, module: GraphModule, node: Node, prefix: str, block: Block, values: dict[Node, Value]
) -> Value:
    predicate, *attributes, operands = node.args
    given = _values_of(operands, values)  # type: ignore[arg-type]
    item_position = walk.step()
    blocks, results = [], []
    for attribute in attributes:
        body, inner = _body(module, attribute), walk.block()
        walk.mirror(body, given)
        results.append(walk.graph(body, f"{prefix}{attribute.target}.", inner, given))  # type: ignore[union-attr]
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
    walk: _Walk,
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


def _loop(walk: _Walk, module: GraphModule, node: Node, prefix: str, block: Block, values: dict[Node, Value]) -> Value:
    """A ``map``, ``scan`` or ``while_loop``: results live from before the first round, rows within one."""
    graphs, start, rows, operands = _parts(node)
    position = walk.step()
    specs = node.meta["spec"]
    specs = list(specs) if isinstance(specs, list | tuple) else [specs]
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


_CONTROL_FLOW: dict[Any, Callable[..., Value]] = {COND: _branch, MAP: _loop, SCAN: _loop, WHILE_LOOP: _loop}


@lru_cache(maxsize=None)
def _role(target: Any) -> Any:
    """What planning needs to know of an operator: the names of its out arguments, or one of the other kinds."""
    import operator

    if target is operator.getitem:
        return _GETITEM
    overload = target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)
    if not isinstance(overload, torch._ops.OpOverload):
        return _OTHER
    schema = overload._schema
    if target is overload and is_out_variant(schema.name, schema.overload_name):
        return tuple(get_out_args_from_opoverload(target))
    return _INPLACE if is_inplace_variant(schema.name, schema.overload_name) else _OTHER
