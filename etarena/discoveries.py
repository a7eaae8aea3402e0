"""Where the symbols that data tells become known: discoveries of a plan section, read off the lowered graph.

Every node at which torch introduced such a symbol is tied to the instruction emitted for it. A count of non-zero
elements is known before that instruction, so its result gets exactly the memory it needs; an int or a result's own size
is known after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from executorch.exir.schema import ExecutionPlan, Instruction, KernelCall, MoveCall
from torch.fx import GraphModule, Node

from .allocator.errors import ExportError
from .allocator.plan import Teller
from .allocator.size_binding import affine
from .loops import COUNTED as CARRIED
from .loops import EMITTED, WHILE_LOOP
from .traced import Size, expression, fake_tensors
from .unbacked import ASSERTED, TOLD, is_unbacked, told_sizes

__all__ = ["TellingNodes", "Told", "renamed_conditions", "told_symbols"]

# Operators whose result has as many rows as their mask has non-zero elements, by the position of the mask.
COUNTED = {"aten::nonzero": 0, "aten::masked_select": 1, "aten::index": 1}
BRANCHES = "cond"
LOOPS = "while_loop"
ITEM = "aten::_local_scalar_dense"
COMPUTED = {"aten::slice_copy"}  # their sizes are expressions of what is known


@dataclass
class Told:
    """One discovery: values are EValue indices here, expressions are not compiled yet."""

    size: Size
    teller: Teller
    instruction: int
    value: int = -1
    index: int = -1
    dim: int = 0
    upper: Size | None = None
    scale: int = 1
    offset: int = 0
    origin: str = ""
    symbol: sympy.Symbol | None = None


@dataclass
class TellingNodes:
    """The nodes of a lowered program that tell symbols, and the instructions emitted for them.

    Parameters
    ----------
    emitted : ExecutionPlan
        The method as the emitter left it.
    graph_module : GraphModule
        What it was emitted from.
    names : mapping of str to int
        EValue index of every named tensor.
    """

    emitted: ExecutionPlan
    graph_module: GraphModule
    names: Mapping[str, int]
    found: list[Told] = field(default_factory=list)
    equal: list[tuple[sympy.Symbol, Size, str]] = field(default_factory=list)
    replaced: dict[sympy.Symbol, sympy.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.instructions = [step for chain in self.emitted.chains for step in chain.instructions]
        self.items = self._scalar_instructions()
        self.placeholders = {
            node: index for index, node in enumerate(n for n in self.graph_module.graph.nodes if n.op == "placeholder")
        }

    def read(self, bounds: Mapping[sympy.Symbol, Size]) -> None:
        """Fill `found`; `bounds` has upper bounds of symbols in terms of others.

        Raises
        ------
        ExportError
            If only an operator itself knows the size of its result and nothing bounds that size; one line for each.
        """
        refused: list[str] = []
        for node in telling_nodes(self.graph_module):
            origin = operator_name(node)
            for size, path in zip(told_sizes(node), node.meta["unbacked_bindings"].values(), strict=True):
                if not isinstance(size, sympy.Expr) or origin in COMPUTED:
                    continue
                try:
                    for told in self._tell(node, origin, size, path, bounds):
                        self._settle(told)
                except ExportError as error:
                    refused.append(str(error))
        if refused:
            raise ExportError("\n".join(refused))
        for node in all_nodes(self.graph_module):
            for position, index, number in node.meta.get(CARRIED, ()):
                size = expression(number) if isinstance(number, torch.SymInt) else number
                if isinstance(size, sympy.Symbol):
                    self._settle(Told(size, Teller.SCALAR, position, index=index, origin=LOOPS))

    def _settle(self, told: Told) -> None:
        """Solve ``told number == size`` for a symbol that is new here; otherwise the two must agree."""
        size = told.size
        symbols = [symbol for symbol in getattr(size, "free_symbols", ()) if is_unbacked(symbol)]
        solved = affine(size, symbols[0]) if len(symbols) == 1 else None
        is_new = len(symbols) == 1 and all(other.symbol != symbols[0] for other in self.found)
        if solved is not None and solved[0] >= 1 and (is_new or told.origin == BRANCHES):
            told.symbol, (told.scale, told.offset) = symbols[0], solved
        elif told.teller is Teller.SIZE:
            return
        else:
            told.symbol = sympy.Symbol(f"told{len(self.equal)}", integer=True)
            self.equal.append((told.symbol, size, f"{told.origin} must tell {size}"))
        self.found.append(told)

    def _tell(
        self, node: Node, origin: str, size: Size, path: Sequence[object], bounds: Mapping[sympy.Symbol, Size]
    ) -> Iterator[Told]:
        if origin == ITEM:
            position, index = self.items[self._value(node.args[0])].pop(0)
            yield Told(size, Teller.SCALAR, position, index=index, origin=origin)
        elif origin in COUNTED:
            yield self._count(node, origin, size)
        elif node.target is torch.ops.higher_order.cond:
            yield from self._branch_sizes(node, size, path)
        elif node.target is not WHILE_LOOP:  # what a loop carries is told where it is moved
            yield self._own_size(node, origin, size, path, bounds)

    def _count(self, node: Node, origin: str, size: Size) -> Told:
        mask = self._mask(node, origin)
        index = self._result(node)
        position = self._first_use(index)
        if origin == "aten::masked_select":
            size = self._repeated(node, size)
        return Told(size, Teller.COUNT_NONZERO, position, value=self._value(mask), origin=origin)

    def _mask(self, node: Node, origin: str) -> Node:
        argument = node.args[COUNTED[origin]]
        masks = [argument]
        if origin == "aten::index":
            masks = [item for item in argument if item is not None and is_mask(item)]
        if len(masks) != 1:
            raise ExportError(f"{node.name!r} indexes with {len(masks)} masks; index with one, or with integers")
        return masks[0]

    def _repeated(self, node: Node, size: Size) -> Size:
        """The count of a mask that is broadcast to the data: each of its elements selects several of the data's."""
        (source,), (mask,) = map(fake_tensors, node.args[:2])
        factor: Size = 1
        shape = torch.broadcast_shapes(source.shape, mask.shape)
        own = [1] * (len(shape) - mask.dim()) + [expression(dim) for dim in mask.shape]
        for dim, own_dim in zip(map(expression, shape), own, strict=True):
            if own_dim == 1 and dim != 1:
                factor = factor * dim
            elif own_dim != dim:
                factor = factor * sympy.Piecewise((dim, sympy.Eq(own_dim, 1)), (1, True))
        if factor == 1 or not isinstance(size, sympy.Symbol) or size in self.replaced:
            return size
        count = sympy.Symbol(f"{size}_selected", integer=True, nonnegative=True)
        self.replaced[size] = count * factor
        return count

    def _branch_sizes(self, node: Node, size: Size, path: Sequence[object]) -> Iterator[Told]:
        """A result of ``cond`` that is not of one size: known when the branch that was taken hands its result over."""
        position, dim = which_size(node, path)
        index = self._result(node, position)
        for at, instruction in enumerate(self.instructions):
            call = instruction.instr_args
            if isinstance(call, MoveCall) and call.move_to == index:
                if dim is None:
                    yield Told(size, Teller.SCALAR, at, index=index, origin=BRANCHES)
                else:
                    yield Told(size, Teller.SIZE, at, value=index, dim=dim, origin=BRANCHES)

    def _own_size(
        self, node: Node, origin: str, size: Size, path: Sequence[object], bounds: Mapping[sympy.Symbol, Size]
    ) -> Told:
        position, dim = which_size(node, path)
        index = self._result(node, position)
        upper = bounds.get(size) if isinstance(size, sympy.Symbol) else None
        if upper is None:
            raise ExportError(
                f"only the operator itself knows size {dim} of {node.name!r} ({origin}), and nothing bounds it: say "
                "how large it can be with torch._check(result.shape[...] <= limit), or compute it another way"
            )
        at = self._first_use(index)
        return Told(size, Teller.SIZE, at, value=index, dim=dim or 0, upper=upper, origin=origin)

    def _value(self, node: Node) -> int:
        """EValue index of the tensor that a node stands for."""
        spec = node.meta.get("spec")
        info = getattr(spec, "extra_tensor_info", None)
        if info is not None and info.fully_qualified_name in self.names:
            return self.names[info.fully_qualified_name]
        index = self.placeholders.get(node, node.meta.get(EMITTED))
        if index is None:
            raise ExportError(f"no value was emitted for {node.name!r}, which tells a size")
        return index

    def _result(self, node: Node, position: int = 0) -> int:
        spec = pytree.tree_leaves(node.meta["spec"])[position]
        info = getattr(spec, "extra_tensor_info", None)
        if info is None or info.fully_qualified_name not in self.names:
            raise ExportError(f"no value was emitted for {node.name!r}, which tells a size")
        return self.names[info.fully_qualified_name]

    def _first_use(self, index: int) -> int:
        for position, instruction in enumerate(self.instructions):
            if index in self._arguments(instruction):
                return position
        raise ExportError(f"no instruction writes value {index}, which tells a size")

    def _arguments(self, instruction: Instruction) -> list[int]:
        direct = list(getattr(instruction.instr_args, "args", ()))
        return [*direct, *(i for a in direct for i in getattr(self.emitted.values[a].val, "items", ()))]

    def _scalar_instructions(self) -> dict[int, list[tuple[int, int]]]:
        """Where each tensor's number is read: (instruction, EValue index of the number), in program order."""
        found: dict[int, list[tuple[int, int]]] = {}
        for position, instruction in enumerate(self.instructions):
            call = instruction.instr_args
            if isinstance(call, KernelCall) and self.emitted.operators[call.op_index].name == ITEM:
                found.setdefault(call.args[0], []).append((position, call.args[1]))
        return found


def all_nodes(graph_module: GraphModule) -> Iterator[Node]:
    """The nodes of a program, those of bodies included."""
    for module in graph_module.modules():
        if isinstance(module, GraphModule):
            yield from module.graph.nodes


def telling_nodes(graph_module: GraphModule) -> Iterator[Node]:
    """Nodes that tell symbols, in the order in which they are emitted."""
    for node in graph_module.graph.nodes:
        for body in node.args if isinstance(node.target, torch._ops.HigherOrderOperator) else ():
            module = (
                getattr(graph_module, body.target, None) if isinstance(body, Node) and body.op == "get_attr" else None
            )
            if isinstance(module, GraphModule):
                yield from telling_nodes(module)
        if node.meta.get("unbacked_bindings"):
            yield node


def renamed_conditions(graph_module: GraphModule) -> dict[sympy.Basic, str]:
    """Conditions on told symbols, each with its text, in terms of the names that the symbols have now."""
    names: dict[sympy.Basic, Size] = {}
    conditions: dict[sympy.Basic, str] = {}
    for node in telling_nodes(graph_module):
        conditions.update(node.meta.get(ASSERTED, {}))
        for old, new in zip(node.meta.get(TOLD, ()), told_sizes(node), strict=False):
            if isinstance(old, sympy.Symbol):
                names.setdefault(old, new)
    renamed = {}
    for condition, text in conditions.items():
        told = [symbol for symbol in condition.free_symbols if is_unbacked(symbol)]
        if told and all(symbol in names for symbol in told):
            for symbol in told:
                text = text.replace(str(symbol), str(names[symbol]))
            renamed[condition.xreplace({symbol: sympy.sympify(names[symbol]) for symbol in told})] = text
    return renamed


def told_symbols(conditions: Mapping[sympy.Basic, str]) -> list[sympy.Symbol]:
    """The symbols in conditions that data tells."""
    return [symbol for symbol in sympy.ordered(sympy.Tuple(*conditions).free_symbols) if is_unbacked(symbol)]


def operator_name(node: Node) -> str:
    """Name of a node's operator, as instructions carry it."""
    schema = getattr(node.target, "_schema", None)
    return schema.name if schema is not None else str(node.target)


def is_mask(node: Node) -> bool:
    """Whether an index selects by truth."""
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


def which_size(node: Node, path: Sequence[Any]) -> tuple[int, int | None]:
    """Which result, and which dimension of it (None: an int), a path into a node's value leads to."""
    value, position, dim = node.meta["val"], 0, None
    for step in path:
        if (
            isinstance(step, pytree.SequenceKey)
            and isinstance(value, list | tuple)
            and not isinstance(value, torch.Size)
        ):
            position = step.idx
        elif isinstance(step, pytree.SequenceKey):
            dim = step.idx
        value = step.get(value)
    return position, dim
