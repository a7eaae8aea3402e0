"""Sizes of traced values, as numbers and sympy expressions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import sympy
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .allocator.errors import ExportError
from .allocator.size_binding import expression

__all__ = ["Size", "check_symbols_survived", "expression", "fake_tensors", "input_sizes", "user_input_names"]

Size: TypeAlias = int | sympy.Expr


def fake_tensors(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    """The tensors that a node was traced to make."""
    return (value for value in pytree.tree_flatten(node.meta.get("val"))[0] if isinstance(value, torch.Tensor))


def user_input_names(program: ExportedProgram) -> list[str]:
    """Placeholder names of the user's inputs, constants among them included."""
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


def input_sizes(program: ExportedProgram) -> dict[str, list[Size]]:
    """Sizes of the user's inputs by name, in order; for an int, the one "size" it is; none for anything else."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    sizes: dict[str, list[Size]] = {}
    for name in user_input_names(program):
        value = values.get(name)
        if isinstance(value, torch.Tensor):
            sizes[name] = [expression(size) for size in value.shape]
        else:
            sizes[name] = [expression(value)] if isinstance(value, int | torch.SymInt) else []
    return sizes


def check_symbols_survived(before: Mapping[str, Sequence[Size]], lowered: ExportedProgram, method: str) -> None:
    """Check that lowering did not turn a symbol into the number it had in the example: such a file only runs there.

    Raises
    ------
    ExportError
        If it did, with the input.
    """
    for (name, sizes), after in zip(before.items(), input_sizes(lowered).values(), strict=True):
        for dim, (was, now) in enumerate(zip(sizes, after, strict=True)):
            if not isinstance(was, int) and isinstance(now, int):
                raise ExportError(
                    f"method {method!r}: size {dim} of input {name!r} may vary in the exported program ({was}), but "
                    f"lowering turned it into {now}. An operator or partitioner needs a fixed size there (torch's map "
                    "does): declare the size as fixed or rewrite that part of the model"
                )
