"""Whether the numbers by which the instructions of a method name things are within its tables."""

from collections.abc import Iterable, Sequence

from executorch.exir.schema import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Tensor,
    TensorList,
)
from executorch.exir.tensor import get_scalar_type

from ..allocator.errors import PlanError

__all__ = ["check_references"]

NONE = -1
"""What an optional tensor list says of a tensor that is not there."""


def check_references(plan: ExecutionPlan) -> None:
    """Check all that one part of a method says of another, so that it can be followed without care.

    Raises
    ------
    PlanError
        An instruction, list, input or output names a value, operator, delegate or instruction that is not there, or
        a tensor has sizes or a type that no tensor has. The message names the method and what is wrong.
    """
    if not isinstance(plan, ExecutionPlan):
        raise PlanError("the program has a method that is empty")
    try:
        _check(plan)
    except (TypeError, AttributeError) as error:  # a damaged file can lack any of its fields
        raise PlanError(f"method {plan.name!r} is damaged: {error}") from error


def _check(plan: ExecutionPlan) -> None:
    if any(nbytes < 0 for nbytes in plan.non_const_buffer_sizes):
        raise PlanError(f"method {plan.name!r} has memory of {min(plan.non_const_buffer_sizes)} bytes")
    _within(plan, "an input", plan.inputs, plan.values, "values")
    _within(plan, "an output", plan.outputs, plan.values, "values")
    for index, value in enumerate(plan.values):
        if isinstance(value.val, Tensor):
            _check_tensor(plan, index, value.val)
        elif isinstance(value.val, TensorList | OptionalTensorList):
            named = [item for item in value.val.items if item != NONE]
            _within(plan, f"value {index}", named, plan.values, "values")
            if any(not isinstance(plan.values[item].val, Tensor) for item in named):
                raise PlanError(
                    f"method {plan.name!r}: value {index} is a list of tensors, and has something else in it"
                )
    for operator in plan.operators:
        if not isinstance(operator.name, str) or not isinstance(operator.overload, str):
            raise PlanError(f"method {plan.name!r}: an operator has no name")
    for chain in plan.chains:
        for position, instruction in enumerate(chain.instructions):
            _check_call(plan, f"instruction {position}", instruction.instr_args, len(chain.instructions))


def _check_tensor(plan: ExecutionPlan, index: int, tensor: Tensor) -> None:
    place = tensor.allocation_info
    known = [tensor.data_buffer_idx]
    if place is not None:
        known += [place.memory_id, place.memory_offset_low, place.memory_offset_high]
    if any(number < 0 for number in known):
        raise PlanError(f"method {plan.name!r}: value {index} lies at a place below 0")
    if any(size < 0 for size in tensor.sizes):
        raise PlanError(f"method {plan.name!r}: value {index} has the sizes {list(tensor.sizes)}")
    try:
        get_scalar_type(tensor.scalar_type)
    except KeyError as error:
        raise PlanError(f"method {plan.name!r}: value {index} is of the type {tensor.scalar_type!r}") from error


def _check_call(plan: ExecutionPlan, what: str, call: object, count: int) -> None:
    if isinstance(call, KernelCall):
        _within(plan, what, [call.op_index], plan.operators, "operators")
        _within(plan, what, call.args, plan.values, "values")
    elif isinstance(call, DelegateCall):
        _within(plan, what, [call.delegate_index], plan.delegates, "delegates")
        _within(plan, what, call.args, plan.values, "values")
    elif isinstance(call, MoveCall):
        _within(plan, what, [call.move_from, call.move_to], plan.values, "values")
    elif isinstance(call, FreeCall):
        _within(plan, what, [call.value_index], plan.values, "values")
    elif isinstance(call, JumpFalseCall):
        _within(plan, what, [call.cond_value_index], plan.values, "values")
        _within(plan, what, [call.destination_instruction], range(count + 1), "instructions")  # or behind the last


def _within(plan: ExecutionPlan, what: str, named: Iterable[int], table: Sequence[object], kind: str) -> None:
    for index in named:
        if not 0 <= index < len(table):
            raise PlanError(f"method {plan.name!r}: {what} names number {index} of its {len(table)} {kind}")
