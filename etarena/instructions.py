"""Emitted instructions of an ExecuTorch plan as `Step`: which tensors each touches and which it makes share memory."""

from functools import cache

import torch
from executorch.exir.schema import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    InstructionArguments,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Tensor,
    TensorList,
)

from .allocator.errors import ExportError
from .liveness import Step

__all__ = ["APPEND", "read_steps"]

# Operators of the runtime itself, which torch does not know. Only the view makes tensors share memory.
PRIM_VIEW = "executorch_prim::et_view"
PRIM_NAMESPACE = "executorch_prim::"
# The result of an append lies where the cache lies, though its schema calls it a tensor of its own.
APPEND = "etarena::append"


def read_steps(plan: ExecutionPlan) -> list[Step]:
    """Read the instructions of `plan`, one `Step` each.

    Raises
    ------
    ExportError
        If the plan has several chains, or an operator whose schema is unknown.
    """
    if len(plan.chains) > 1:
        raise ExportError(f"method {plan.name!r} was emitted as {len(plan.chains)} chains; only one is supported")
    return [_read(instruction.instr_args, plan) for chain in plan.chains for instruction in chain.instructions]


def _read(call: InstructionArguments, plan: ExecutionPlan) -> Step:
    if isinstance(call, KernelCall):
        operator = plan.operators[call.op_index]
        label = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        return Step(label, _tensors(call.args, plan), _aliases(operator.name, operator.overload, call.args, plan))
    if isinstance(call, DelegateCall):
        return Step(plan.delegates[call.delegate_index].id, _tensors(call.args, plan))
    if isinstance(call, JumpFalseCall):
        return Step("jump_false", _tensors([call.cond_value_index], plan), target=call.destination_instruction)
    if isinstance(call, MoveCall):
        if not _tensors([call.move_from], plan):
            return Step("move")
        return Step("move", move=(call.move_from, call.move_to))
    if isinstance(call, FreeCall):
        return Step("free", _tensors([call.value_index], plan))
    raise ExportError(f"method {plan.name!r} has an instruction of unknown kind {type(call).__name__}")


def _tensors(arguments: list[int], plan: ExecutionPlan) -> tuple[int, ...]:
    """EValue indices of the tensors among `arguments`, those inside lists included, each once."""
    found: dict[int, None] = {}
    for index in arguments:
        value = plan.values[index].val
        if isinstance(value, Tensor):
            found[index] = None
        elif isinstance(value, TensorList | OptionalTensorList):
            found.update((item, None) for item in value.items if item >= 0)
    return tuple(found)


def _aliases(name: str, overload: str, arguments: list[int], plan: ExecutionPlan) -> tuple[tuple[int, int], ...]:
    if name == PRIM_VIEW:
        return ((arguments[0], arguments[2]),)
    if name == APPEND:
        return ((arguments[0], arguments[-1]),)
    if name.startswith(PRIM_NAMESPACE):
        return ()
    return tuple(
        (base, result)
        for base_position, result_position in _returned_arguments(name, overload)
        for base in _tensors([arguments[base_position]], plan)
        for result in _tensors([arguments[result_position]], plan)
    )


@cache
def _returned_arguments(name: str, overload: str) -> tuple[tuple[int, int], ...]:
    """Pairs of argument positions: a tensor that the operator takes, and the result that shares its memory.

    The emitter appends the results to the arguments. A kernel with out arguments gets these as its results, so nothing
    new is shared; other operators (``copy_``, ``index_put_``) say in their schema which argument a result shares.
    """
    schemas = [schema for schema in torch._C._jit_get_schemas_for_operator(name) if schema.overload_name == overload]
    if not schemas:
        raise ExportError(f"operator {name}.{overload} has no schema, so nothing says which tensors share memory")
    (schema,) = schemas
    if any(argument.is_out for argument in schema.arguments):
        return ()
    n_arguments = len(schema.arguments)
    return tuple(
        (position, n_arguments + which)
        for which, result in enumerate(schema.returns)
        for position, argument in enumerate(schema.arguments)
        if result.alias_info is not None
        and argument.alias_info is not None
        and result.alias_info.before_set & argument.alias_info.before_set
    )
