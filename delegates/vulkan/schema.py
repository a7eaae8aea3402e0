"""Calls of operators in a graph of torch.fx, with their arguments by the schema's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import Node

__all__ = ["arguments_of", "is_row_major", "operator_name", "tensors_of", "values_of"]


def operator_name(node: Node) -> str | None:
    """Name of the operator that a node calls, as `operators` have it; None for anything else."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return None
    namespace, name = schema.name.split("::")
    return f"{namespace}.{name}.{schema.overload_name or 'default'}"


def arguments_of(node: Node) -> dict[str, Any]:
    """Arguments by name, with the schema's defaults."""
    schema = node.target._schema
    found: dict[str, Any] = {}
    for place, argument in enumerate(schema.arguments):
        if place < len(node.args) and not argument.kwarg_only:
            found[argument.name] = node.args[place]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def values_of(node: Node) -> dict[str, Any]:
    """Arguments by name with fake tensors in place of nodes, and the result as ``"out"``."""
    found = {
        name: torch.fx.node.map_arg(entry, lambda n: n.meta.get("val")) for name, entry in arguments_of(node).items()
    }
    return {**found, "out": node.meta.get("val")}


def is_row_major(tensor: torch.Tensor) -> bool:
    """Whether dimensions lie in their order, or may."""
    try:
        order = [int(dim) for dim in tensor.dim_order()]
    except Exception:  # sizes that nobody can compare
        return True
    return order == sorted(order)


def tensors_of(entry: Any) -> list[torch.Tensor]:
    """All tensors in an argument or a result."""
    if isinstance(entry, torch.Tensor):
        return [entry]
    if isinstance(entry, list | tuple):
        return [tensor for inner in entry for tensor in tensors_of(inner)]
    return []
