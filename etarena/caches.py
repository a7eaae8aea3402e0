"""Growable caches in the lowered program: the appends of `etarena.ops` as a chain from one length to the next.

In the traced program every `length` and `append` names the buffer, whose shape there is that of its start value. The
pass here gives the buffer its symbolic length and makes each use read what the one before it left, as functionalisation
does for in-place operators; the result of the last append is what the cache holds after the call.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassResult
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from . import ops as _ops  # noqa: F401  (defines the operators)
from .allocator.errors import ExportError
from .ops.cache import empty_in_order, storage_order
from .traced import expression

__all__ = ["CACHE_OPERATORS", "Growth", "ThreadCaches", "growable_buffers"]

LENGTH = exir_ops.edge.etarena.length.default
APPEND = exir_ops.edge.etarena.append.default
CACHE_OPERATORS = frozenset({LENGTH, APPEND, exir_ops.edge.etarena.attention.default})
torch.fx.node.has_side_effect(APPEND)


@dataclass(frozen=True)
class Growth:
    """How a buffer grows: in dimension `dim`, keeping the last `window` entries (0: all) from call to call."""

    dim: int
    window: int = 0

    def order(self, sizes: tuple[int | torch.SymInt, ...]) -> tuple[int, ...]:
        """Dim order in memory of a cache of these sizes, with dimensions of size 1 where ExecuTorch sees them."""
        some = [2 if d == self.dim else size for d, size in enumerate(sizes)]
        strides = empty_in_order(torch.empty(0, device="meta"), some, storage_order(sizes, self.dim)).stride()
        return tuple(sorted(range(len(sizes)), key=lambda d: -strides[d]))


def growable_buffers(program: ExportedProgram, method: str) -> dict[str, Growth]:
    """The buffers that `length` or `append` is used on, by name.

    Raises
    ------
    ExportError
        If such a buffer is used in another way too, or inside control flow, or appended to in two dimensions.
    """
    _refuse_in_branches(program, method)
    buffers = program.graph_signature.inputs_to_buffers
    found: dict[str, Growth] = {}
    for node in _cache_nodes(program.graph_module):
        cache = node.args[0]
        if not isinstance(cache, Node) or cache.target not in buffers or cache.op != "placeholder":
            raise ExportError(
                f"method {method!r}: {node.name!r} grows {cache}, which is no buffer of the model; register the cache "
                "with register_buffer and use it as it is"
            )
        name = buffers[cache.target]
        found[name] = _merged(found.get(name), node, name, method)
        _refuse_other_uses(cache, name, method)
    return found


def _cache_nodes(module: GraphModule) -> Iterator[Node]:
    return (node for node in module.graph.nodes if node.op == "call_function" and node.target in (LENGTH, APPEND))


def _refuse_in_branches(program: ExportedProgram, method: str) -> None:
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule) and module is not program.graph_module:
            for node in _cache_nodes(module):
                raise ExportError(
                    f"method {method!r}: {node.name!r} uses a growable cache inside a branch or loop, where it may run "
                    "any number of times; append before it or after it"
                )


def _merged(known: Growth | None, node: Node, name: str, method: str) -> Growth:
    dim = _dim(node)
    if known is not None and known.dim != dim:
        raise ExportError(f"method {method!r}: buffer {name!r} grows in dimension {known.dim} and in {dim}; choose one")
    window = (_argument(node, 4, "window", None) or 0) if node.target is APPEND else 0
    if known is not None and known.window and node.target is APPEND:
        raise ExportError(
            f"method {method!r}: two appends with a window to buffer {name!r} in one call; append the entries together"
        )
    return Growth(dim, window or (known.window if known is not None else 0))


def _dim(node: Node) -> int:
    dim = _argument(node, 1 if node.target is LENGTH else 2, "dim")
    assert isinstance(dim, int)  # the operator's schema
    return dim


def _argument(node: Node, position: int, name: str, *default: Any) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, *default)


def _refuse_other_uses(cache: Node, name: str, method: str) -> None:
    for user in cache.users:
        if user.op == "output" or user.target not in (LENGTH, APPEND):
            raise ExportError(
                f"method {method!r}: {user.name!r} uses buffer {name!r}, which grows, as it was before the call; use "
                "the result of etarena.ops.append, or append nothing to read it"
            )


class ThreadCaches(ExportPass):
    """Replace `length` by sizes and chain the appends to one buffer."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite `graph_module` and trace it again, so that every size follows."""
        nodes = list(_cache_nodes(graph_module))
        if not nodes:
            return PassResult(graph_module, False)
        current: dict[Node, Node] = {}
        for node in nodes:
            cache = node.args[0]
            if cache not in current:
                current[cache] = cache
                self._give_length(cache, node)
            if node.target is LENGTH:
                self._read_size(node, current[cache])
            else:
                node.args = (current[cache], *node.args[1:])
                current[cache] = node
        graph_module.recompile()
        return super().call(graph_module)

    def _give_length(self, cache: Node, first: Node) -> None:
        """Make the buffer as long as the first node that uses it says."""
        dim = _dim(first)
        told: Any = first.meta["val"] if first.target is LENGTH else _argument(first, 3, "past")
        if isinstance(told, Node):
            told = told.meta["val"]
        value = cache.meta["val"]
        sizes = list(value.shape)
        sizes[dim] = told
        with value.fake_mode:
            cache.meta["val"] = empty_in_order(value, sizes, storage_order(tuple(value.shape), dim))

    def _read_size(self, node: Node, cache: Node) -> None:
        node.args = (cache, _dim(node))
        node.target = torch.ops.aten.sym_size.int
        node.meta.pop("unbacked_bindings", None)  # no longer data: a call begins with this length


def check_chain(program: ExportedProgram, method: str) -> None:
    """Refuse appends whose `past` contradicts what the append before them left.

    Raises
    ------
    ExportError
    """
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in (APPEND, torch.ops.etarena.append.out):
            length = expression(node.args[0].meta["val"].shape[node.args[2]])
            past = _argument(node, 3, "past")
            past = expression(past.meta["val"]) if isinstance(past, Node) else past
            if length != past:
                raise ExportError(
                    f"method {method!r}: {node.name!r} appends to a cache of length {length} with past={past}; pass "
                    "past only once per cache and call, or its length then"
                )
