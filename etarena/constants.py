"""Work on constants that can be done at export: a weight that every run would transpose anew is stored transposed."""

from collections.abc import Collection

import torch
from executorch.backends.transforms.utils import create_constant_placeholder, delete_constant_placeholder
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from .traced import user_input_names

__all__ = ["fold_permuted_constants"]

PERMUTES = frozenset(
    {
        exir_ops.edge.aten.permute_copy.default,
        exir_ops.edge.aten.t_copy.default,
        exir_ops.edge.aten.transpose_copy.int,
    }
)


def fold_permuted_constants(program: ExportedProgram, states: Collection[str]) -> None:
    """Replace permuted constants by constants, in place.

    ``linear`` is lowered to a product with a permuted weight. The stock kernel copies the weight in every run, so that
    the arena holds a second one however small the input is. A constant that is also used as it was is stored twice.

    Parameters
    ----------
    program : ExportedProgram
        In the edge dialect.
    states : collection of str
        Names of buffers that some method writes: no constants, whatever this method does.
    """
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    constants = [node for node in program.graph.nodes if names.get(node.target, "") not in ("", *states)]
    for node in constants:
        tensor = _tensor(program, names[node.target])
        users = [user for user in node.users if user.target in PERMUTES]
        if tensor is None or not users:
            continue
        for user in users:
            user.replace_all_uses_with(_permuted(program, node, user, tensor))
            program.graph.erase_node(user)
        if not node.users:
            _delete(program, node, names[node.target])
    program.graph_module.recompile()


def _tensor(program: ExportedProgram, name: str) -> torch.Tensor | None:
    found = program.state_dict.get(name, program.constants.get(name))
    return found.detach() if isinstance(found, torch.Tensor) else None


def _permuted(program: ExportedProgram, node: Node, user: Node, tensor: torch.Tensor) -> Node:
    """A placeholder for the tensor as `user` would permute it."""
    with torch.no_grad():
        data = user.target(tensor, *user.args[1:], **user.kwargs).contiguous()
    inputs = set(user_input_names(program))
    first_input = next((other for other in program.graph.nodes if other.name in inputs), node.next)
    dims = "_".join(str(dim) for dim in tuple(torch.utils._pytree.tree_leaves(user.args[1:]))).replace("-", "m")
    with program.graph.inserting_before(first_input):
        return create_constant_placeholder(
            program, program.graph, f"{node.name}_permuted_{dims}", InputKind.CONSTANT_TENSOR, data
        )


def _delete(program: ExportedProgram, node: Node, name: str) -> None:
    """Drop a constant that nothing uses any more, but not the tensor where another placeholder has the same name."""
    kept = dict(program.state_dict), dict(program.constants)
    shared = [spec for spec in program.graph_signature.input_specs if spec.target == name]
    delete_constant_placeholder(program, node)
    if len(shared) > 1:
        program.state_dict.update({name: kept[0][name]} if name in kept[0] else {})
        program.constants.update({name: kept[1][name]} if name in kept[1] else {})
