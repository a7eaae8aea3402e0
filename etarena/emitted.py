"""One method after emission, with what was read from its plan and its program."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy
import torch
import torch.utils._pytree as pytree
from executorch.exir.schema import ExecutionPlan, Tensor
from torch.export import ExportedProgram

from .discoveries import TellingNodes
from .liveness import Step
from .traced import Size, expression, user_input_names
from .unplanned import NamedSizes

__all__ = ["Emitted", "input_nodes", "result_nodes", "size_result", "value_of"]


@dataclass
class Emitted:
    """One method after emission: the plan, the program it was emitted from, and what was read from the two."""

    plan: ExecutionPlan
    program: ExportedProgram
    sizes: NamedSizes
    tensors: dict[int, Tensor]
    buffers: dict[int, str]
    constants: dict[int, str]
    telling: TellingNodes
    steps: list[Step] = field(default_factory=list)
    results: dict[int, int] = field(default_factory=dict)  # what states and inputs are after the run

    def expressions(self, index: int) -> list[Size]:
        """Sizes of a tensor with symbols."""
        numbers = list(self.tensors[index].sizes)
        sizes = numbers if index in self.constants else self.sizes.tensors.get(self.name(index), numbers)
        return [self.current(size) for size in sizes]

    def current(self, size: Size) -> Size:
        """A size in terms of the symbols that the section has."""
        return size if isinstance(size, int) else size.xreplace(self.telling.replaced)

    def conditions(self, conditions: Mapping[sympy.Basic, str]) -> list[tuple[sympy.Basic, str]]:
        """Conditions in terms of these symbols, and that what is told agrees with what is known already."""
        equal = [(sympy.Eq(symbol, size, evaluate=False), text) for symbol, size, text in self.telling.equal]
        return [(expr.xreplace(self.telling.replaced), text) for expr, text in [*conditions.items(), *equal]]

    def name(self, index: int) -> str:
        """Name of a tensor: its graph node, its mutable buffer, or its constant."""
        if index in self.constants:
            return self.constants[index]
        info = self.tensors[index].extra_tensor_info
        return info.fully_qualified_name if info is not None and info.fully_qualified_name else f"value_{index}"


def input_nodes(method: Emitted) -> list[torch.fx.Node]:
    """Graph nodes of the user's inputs, in order."""
    names = set(user_input_names(method.program))
    return [node for node in method.program.graph.nodes if node.op == "placeholder" and node.name in names]


def result_nodes(program: ExportedProgram) -> list[object]:
    """What the graph gives, in order: nodes, and plain values."""
    return pytree.tree_flatten(program.graph_module.graph.output_node().args)[0]


def value_of(node: object) -> object:
    """The example value of a node, or a plain value."""
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else node


def size_result(node: object, known: set[sympy.Symbol]) -> Size | None:
    """The size that a result is, if it is an int that sizes of inputs determine."""
    value = value_of(node)
    if not isinstance(value, int | torch.SymInt) or isinstance(value, bool):
        return None
    size = expression(value)
    return size if getattr(size, "free_symbols", set()) <= known else None
