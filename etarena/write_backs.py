"""What a method writes into its state and inputs at its end, taken out of the instructions.

ExecuTorch ends a method with one copy a mutated buffer or input, and stops at the first instruction that fails: then
some are new and others old. Here the copies are left to the run time, which makes them once the whole call has
succeeded.
"""

from collections.abc import Callable, Collection
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.schema import ExecutionPlan, KernelCall, Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec
from torch.fx import Node

from .instructions import APPEND

__all__ = ["copy_foreign_results", "copy_returned_inputs", "last_appends", "take_write_backs"]


def copy_foreign_results(program: ExportedProgram) -> None:
    """Give buffers and inputs that become another buffer or input a copy of it.

    ExecuTorch takes a result that is a placeholder for one that was changed in place, and forgets the write.
    """
    targets = {**program.graph_signature.inputs_to_buffers}

    def is_foreign(node: Node, spec: OutputSpec) -> bool:
        changes = spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
        return changes and node.op == "placeholder" and spec.target not in (node.name, targets.get(node.name))

    _copy_results(program, is_foreign)


def copy_returned_inputs(program: ExportedProgram) -> None:
    """Give a result that is an input, or another result, memory of its own.

    Where the caller provides the memory of inputs and results, it would provide it twice, and nothing fills the second.
    """
    inputs = set(program.graph_signature.user_inputs)
    seen: set[Node] = set()

    def is_another(node: Node, spec: OutputSpec) -> bool:
        if spec.kind is not OutputKind.USER_OUTPUT or not isinstance(node.meta.get("val"), torch.Tensor):
            return False
        known = node in seen or (node.op == "placeholder" and node.name in inputs)
        seen.add(node)
        return known

    _copy_results(program, is_another)


def _copy_results(program: ExportedProgram, is_copied: Callable[[Node, OutputSpec], bool]) -> None:
    output = program.graph_module.graph.output_node()
    results = list(output.args[0])
    for position, spec in enumerate(program.graph_signature.output_specs):
        node = results[position]
        if not isinstance(node, Node) or not is_copied(node, spec):
            continue
        with program.graph_module.graph.inserting_before(output):
            copy = program.graph_module.graph.call_function(exir_ops.edge.aten.clone.default, (node,))
        copy.meta["val"] = node.meta["val"]
        results[position] = copy
        spec.arg.name = copy.name
    output.args = (tuple(results),)
    program.graph_module.recompile()


def take_write_backs(
    plan: ExecutionPlan, targets: Collection[int], sizes: Callable[[int], list[Any]]
) -> dict[int, int]:
    """Remove the copies at the end of a method.

    Parameters
    ----------
    plan : ExecutionPlan
        The emitted method, which is changed.
    targets : collection of int
        Values that may be copied into: mutable buffers and inputs.
    sizes : callable
        Symbolic sizes of a value.

    Returns
    -------
    dict of int to int
        What each target becomes: target to source. A copy that changes dtype, layout or shape stays an instruction.
    """
    taken: dict[int, int] = {}
    if len(plan.chains) != 1:
        return taken
    instructions = plan.chains[0].instructions
    while instructions and isinstance(call := instructions[-1].instr_args, KernelCall):
        operator = plan.operators[call.op_index]
        target, source = call.args[0], call.args[1]
        if operator.name != "aten::copy_" or target not in targets or target in taken:
            break
        if not _same_form(plan, target, source) or sizes(target) != sizes(source):
            break
        instructions.pop()
        taken[target] = source
    return taken


def last_appends(plan: ExecutionPlan, buffers: Collection[int]) -> dict[int, int]:
    """For every growable buffer that is appended to, the value that it is after the last append."""
    latest = {index: index for index in buffers}
    for chain in plan.chains:
        for instruction in chain.instructions:
            call = instruction.instr_args
            if isinstance(call, KernelCall) and plan.operators[call.op_index].name == APPEND:
                cache, result = call.args[0], call.args[-1]
                latest.update({root: result for root, value in latest.items() if value == cache})
    return {root: value for root, value in latest.items() if value != root}


def _same_form(plan: ExecutionPlan, target: int, source: int) -> bool:
    one, other = plan.values[target].val, plan.values[source].val
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    return one.scalar_type == other.scalar_type and list(one.dim_order) == list(other.dim_order)
