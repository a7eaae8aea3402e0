"""Emitted instructions of an ExecuTorch plan as `Step`: which tensors each touches and which it makes share memory."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
from executorch.exir.schema import (
    Bool,
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    InstructionArguments,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    OptionalTensorList,
    Tensor,
    TensorList,
)

from .allocator.errors import ExportError
from .liveness import Step

__all__ = ["APPEND", "read_steps"]

# Operators of the runtime itself, which torch does not know. Only the view makes tensors share memory.
PRIM_VIEW = "executorch_prim::et_view"
COPY = "aten::copy_"
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
    calls = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
    changing = {index for call in calls for index in _given(call)}
    touched: set[int] = set(plan.inputs)
    steps = []
    for call in calls:
        step = _read(call, plan, touched)
        if isinstance(call, JumpFalseCall):
            value = plan.values[call.cond_value_index].val
            always = isinstance(value, Bool) and not value.bool_val and call.cond_value_index not in changing
            step = replace(step, always=always)
        steps.append(step)
        touched.update(step.uses, step.move or ())
    return steps


def _given(call: InstructionArguments) -> Sequence[int]:
    """EValues that an instruction may give another value."""
    if isinstance(call, KernelCall | DelegateCall):
        return call.args
    return [call.move_to] if isinstance(call, MoveCall) else ()


def _read(call: InstructionArguments, plan: ExecutionPlan, touched: set[int]) -> Step:
    if isinstance(call, KernelCall):
        operator = plan.operators[call.op_index]
        label = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        if len(call.args) < _least_arguments(operator.name, operator.overload):
            raise ExportError(f"method {plan.name!r} calls {label} with {len(call.args)} arguments, but it takes more")
        aliases = _aliases(operator.name, operator.overload, call.args, plan)
        return Step(label, _tensors(call.args, plan), aliases, writes=_writes(operator, call.args, plan))
    if isinstance(call, DelegateCall):
        tensors = _tensors(call.args, plan)
        made = tuple(index for index in tensors if index not in touched)  # its results: nothing has filled them before
        return Step(plan.delegates[call.delegate_index].id, tensors, writes=made)
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


def _writes(operator: Operator, arguments: list[int], plan: ExecutionPlan) -> tuple[int, ...]:
    """Tensors that a kernel overwrites as a whole: its out arguments, and what ``copy_`` copies to."""
    if operator.name.startswith(PRIM_NAMESPACE):
        return ()
    (schema,) = _schemas(operator.name, operator.overload)
    results = [position for position, argument in enumerate(schema.arguments) if argument.is_out]
    if operator.name == COPY:
        results = [0]
    given = arguments[: len(schema.arguments)]
    read = _tensors([index for position, index in enumerate(given) if position not in results], plan)
    return tuple(index for index in _tensors([given[position] for position in results], plan) if index not in read)


@cache
def _least_arguments(name: str, overload: str) -> int:
    """Number of arguments that a call of an operator has at least; what the operator returns comes behind them."""
    if name.startswith(PRIM_NAMESPACE):
        return 3 if name == PRIM_VIEW else 0
    (schema,) = _schemas(name, overload)
    return len(schema.arguments) + (0 if any(one.is_out for one in schema.arguments) else len(schema.returns))


@cache
def _schemas(name: str, overload: str) -> list[torch._C.FunctionSchema]:
    known = torch._C._jit_get_schemas_for_operator(name) if "::" in name else []  # torch asks for a namespace
    schemas = [schema for schema in known if schema.overload_name == overload]
    if not schemas:
        raise ExportError(f"operator {name}.{overload} has no schema, so nothing says which tensors share memory")
    return schemas


@cache
def _returned_arguments(name: str, overload: str) -> tuple[tuple[int, int], ...]:
    """Pairs of argument positions: a tensor that the operator takes, and the result that shares its memory.

    The emitter appends the results to the arguments. A kernel with out arguments gets these as its results, so nothing
    new is shared; other operators (``copy_``, ``index_put_``) say in their schema which argument a result shares.
    """
    (schema,) = _schemas(name, overload)
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
