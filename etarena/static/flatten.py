"""From a graph and the bodies of its control flow to one time line, in the order in which ExecuTorch emits them."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

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
from .bodies import EMITTED_BODIES, Value
from .storages import Storages
from .timeline import Block, Scratch, Timeline, Touch

__all__ = ["Walk", "flatten"]

_GETITEM, _INPLACE, _OTHER = "getitem", "inplace", "other"


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
    walk = Walk(unplanned, scratch_bytes, check)
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


class Walk:
    """What is known so far while a tree is laid out; parameters as for `flatten`."""

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
        """Go on to the next position, and say which it is."""
        self._position += 1
        return self._position

    def roots(self, storages: Iterable[int]) -> tuple[int, ...]:
        """Each storage once, by the number that stands for it."""
        return tuple(dict.fromkeys(map(self.storages.root, storages)))

    def flat(self, value: Value) -> tuple[int, ...]:
        """All storages of a value."""
        if isinstance(value, list):
            return tuple(storage for item in value for storage in self.flat(item))
        found: tuple[int, ...] = value
        return found

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
                    values[node] = _known(values, node, node.args[0], prefix)
                    if self._stacked:
                        self._view_of_stack(node)
                elif target in EMITTED_BODIES:
                    values[node] = EMITTED_BODIES[target](self, module, node, prefix, block, values)
                else:
                    values[node] = self._call(module, node, target, prefix, block, values)
            elif op == "placeholder":
                values[node] = next(given)
            elif op == "output":
                results = [leaf for leaf in pytree.tree_leaves(node.args[0]) if leaf is not None]
                return [_known(values, node, leaf, prefix) if isinstance(leaf, Node) else () for leaf in results]
            else:
                values[node] = ()
        raise ExportError(f"the graph {prefix or 'of the method'} has no output, so nothing says what it computes")

    def _call(
        self, module: GraphModule, node: Node, target: Any, prefix: str, block: Block, values: dict[Node, Value]
    ) -> Value:
        role = _role(target)
        if role is _GETITEM:
            source = _known(values, node, node.args[0], prefix)
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
                value = _known(values, node, source, prefix)
            if value:
                uses += self.flat(value) if isinstance(value, list) else value
        fresh = () if role is _INPLACE else self.flat(made)
        if target is executorch_call_delegate:
            fresh = (*fresh, *self._delegate(module, node, prefix, block))
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
        """Begin a block inside the one that is being laid out."""
        self._blocks += 1
        return Block(self._blocks, self._position + 1)

    def finish(self, block: Block) -> None:
        """End a block here."""
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
            is_stand_in = isinstance(spec, TensorSpec) and self.storages.of(spec) is None
            if is_stand_in and len(value) == 1 and self.storages.is_whole(value[0]):
                self.storages.mirror(spec, value[0])


def _known(values: Mapping[Node, Value], reader: Node, source: Any, prefix: str) -> Value:
    """What a node reads, if it has been computed."""
    if source not in values:
        raise ExportError(
            f"{prefix}{reader.name} reads {source.name} before it is computed, so that the graph has no order in which "
            "it could be planned: let the pass that moved one of them keep the order (graph.lint() finds it)"
        )
    return values[source]


@cache
def _role(target: Any) -> Any:
    """What planning needs to know of an operator: the names of its out arguments, or one of the other kinds."""
    if target is operator.getitem:
        return _GETITEM
    overload = target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)
    if not isinstance(overload, torch._ops.OpOverload):
        return _OTHER
    schema = overload._schema
    if target is overload and is_out_variant(schema.name, schema.overload_name):
        return tuple(get_out_args_from_opoverload(target))
    return _INPLACE if is_inplace_variant(schema.name, schema.overload_name) else _OTHER
