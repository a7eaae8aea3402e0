"""Control flow as instructions: loops whose condition comes first, branches, and results that never share memory.

ExecuTorch's emitter has no ``while_loop``. Its ``scan`` overwrites a carried value that a later result still needs (a
swap), needs at least one row, and counts on where it was after a failed call; its ``map`` takes one tensor. What a
loop carries has a storage of its own here: filled from the start values, read by the condition and the body, and
overwritten once all results of a round are there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from executorch.exir.emit._emitter import _AbstractValue, _Emitter
from executorch.exir.schema import (
    Bool,
    Double,
    EValue,
    Instruction,
    Int,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    TensorShapeDynamism,
)
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule

from .allocator.errors import ExportError

__all__ = ["COND", "CONTROL_FLOW", "COUNTED", "EMITTED", "MAP", "SCAN", "WHILE_LOOP", "emitting_loops"]

Value: TypeAlias = _AbstractValue

COND = torch.ops.higher_order.cond
WHILE_LOOP = torch.ops.higher_order.while_loop
SCAN = torch.ops.higher_order.scan
MAP = torch.ops.higher_order.map_impl
# Notes that emission leaves on nodes: the EValue of a body's placeholder; (instruction, EValue, int as traced) wherever
# a while_loop has a new value of an int that it carries.
EMITTED, COUNTED = "etarena_emitted", "etarena_counted"
CONTROL_FLOW = frozenset({COND, WHILE_LOOP, SCAN, MAP})


@contextmanager
def emitting_loops() -> Iterator[None]:
    """Within the block, ExecuTorch emits control flow as described above; it is as before afterwards."""
    original = _Emitter._emit_control_flow, _Emitter.output, _Emitter.placeholder

    def placeholder(self: _Emitter, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        value = original[2](self, target, args, kwargs)
        self.node.meta[EMITTED] = value.id
        return value

    def output(self: _Emitter, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        results = _values(self, pytree.tree_flatten(args[0])[0])
        original[1](self, target, (results,), kwargs)

    _Emitter._emit_control_flow, _Emitter.output, _Emitter.placeholder = _emit_control_flow, output, placeholder
    try:
        yield
    finally:
        _Emitter._emit_control_flow, _Emitter.output, _Emitter.placeholder = original


def _emit_control_flow(
    emitter: _Emitter, target: Any, args: tuple[Any, ...], _kwargs: Mapping[str, Any]
) -> list[Value]:
    results = [
        _result(emitter, *pair) for pair in zip(emitter.node.meta["spec"], emitter.node.meta["val"], strict=True)
    ]
    if target is COND:
        predicate, true_graph, false_graph, operands = args
        (predicate,) = _values(emitter, [predicate])
        emitter._emit_cond((predicate, true_graph, false_graph, _values(emitter, operands)), results)
    elif target is WHILE_LOOP:
        condition, body, start, operands = args
        _emit_while(emitter, (condition, body), _values(emitter, start), _values(emitter, operands), results)
    elif target is SCAN:
        body, start, rows, operands = args
        _emit_rows(emitter, body, _values(emitter, start), rows, _values(emitter, operands), results)
    elif target is MAP:
        body, rows, operands = args
        _emit_rows(emitter, body, [], rows, _values(emitter, operands), results)
    else:
        raise ExportError(f"control flow of kind {target} is not supported")
    return results


def _result(emitter: _Emitter, spec: object, traced: object) -> Value:
    """The value that a result of control flow will be in."""
    if isinstance(spec, TensorSpec):
        return emitter._emit_spec(spec)
    if isinstance(traced, bool | torch.SymBool):
        return emitter._emit_evalue(EValue(Bool(False)))
    if isinstance(traced, float | torch.SymFloat):
        return emitter._emit_evalue(EValue(Double(0.0)))
    return emitter._emit_evalue(EValue(Int(0)))


def _values(emitter: _Emitter, arguments: Iterable[Any]) -> list[Value]:
    """Arguments as emitted values: numbers get one."""
    return [
        argument
        if isinstance(argument, _AbstractValue)
        else emitter._emit_evalue(emitter._constant_to_evalue(argument, None))
        for argument in arguments
    ]


def _emit_while(
    emitter: _Emitter,
    graphs: tuple[GraphModule, GraphModule],
    start: Sequence[Value],
    operands: Sequence[Value],
    results: Sequence[Value],
) -> None:
    """Copy the start values, then: condition, jump out if false, body, copy its results, jump back."""
    condition, body = graphs
    traced = [node.meta["val"] for node in body.graph.nodes if node.op == "placeholder"][: len(results)]
    carried = [result if result.tensor is not None else _values(emitter, [0])[0] for result in results]
    seen = [value if value.tensor is not None else _values(emitter, [0])[0] for value in carried]
    _assign(emitter, start, carried)
    head = _position(emitter)
    _tell(emitter, carried, seen, traced)
    (is_true,) = _emit_graph(emitter, condition, [*seen, *operands])
    leave = _jump_if_false(emitter, is_true)
    made = _emit_graph(emitter, body, [*seen, *operands])
    _assign(emitter, made, carried)
    _jump_if_false(emitter, emitter._emit_evalue(EValue(Bool(False))), head)
    leave.destination_instruction = _position(emitter)
    _tell(emitter, carried, results, emitter.node.meta["val"])


def _tell(emitter: _Emitter, carried: Sequence[Value], seen: Sequence[Value], traced: Sequence[Any]) -> None:
    """Move carried ints to where they are read, in one place, so that sizes which depend on them are known there."""
    for source, target, number in zip(carried, seen, traced, strict=True):
        if source.id != target.id:
            emitter.node.meta.setdefault(COUNTED, []).append((_position(emitter), target.id, number))
            _move(emitter, source, target)


def _emit_rows(
    emitter: _Emitter,
    body: GraphModule,
    start: Sequence[Value],
    rows: Sequence[Value],
    operands: Sequence[Value],
    results: Sequence[Value],
) -> None:
    """Run `body` on one row of each of `rows` after another; `results`: what is carried, then the stacked results."""
    carried, stacks = results[: len(start)], results[len(start) :]
    zero, one = _values(emitter, [0, 1])
    count, number = _values(emitter, [0, 0])
    goes_on, is_done = _values(emitter, [False, False])
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
    row_specs = [node.meta["spec"] for node in placeholders[len(start) : len(start) + len(rows)]]
    slices = [emitter._emit_spec(spec) for spec in row_specs]
    for stack in stacks:  # it grows by a row in each round, also where their number is fixed
        emitter.emitter_state.values[stack.id].val.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND

    _call(emitter, "aten::sym_size", "int", [rows[0], zero, count])
    _move(emitter, zero, number)
    _assign(emitter, start, carried)
    _call(emitter, "executorch_prim::lt", "Scalar", [number, count, goes_on])
    leave = _jump_if_false(emitter, goes_on)
    head = _position(emitter)
    for source, row in zip(rows, slices, strict=True):
        _call(emitter, "aten::select_copy", "int_out", [source, zero, number, row, row])
    made = _emit_graph(emitter, body, [*carried, *slices, *operands])
    for result, stack in zip(made[len(start) :], stacks, strict=True):
        _call(emitter, "executorch_prim::et_copy_index", "tensor", [stack, result, number])
    _assign(emitter, made[: len(start)], carried)
    _call(emitter, "executorch_prim::add", "Scalar", [number, one, number])
    _call(emitter, "executorch_prim::eq", "Scalar", [number, count, is_done])
    _jump_if_false(emitter, is_done, head)
    leave.destination_instruction = _position(emitter)


def _emit_graph(emitter: _Emitter, graph: GraphModule, inputs: list[Value]) -> list[Value]:
    """Emit a body here; returns where its results are."""
    inner = _Emitter(
        graph,
        emitter.emitter_state,
        emitter.program_state,
        instruction_start_offset=_position(emitter),
        binding_input_values=inputs,
    )
    inner.run()
    emitter._merge_chain(inner.chain)
    return inner.concrete_output_ids


def _assign(emitter: _Emitter, sources: Sequence[Value], destinations: Sequence[Value]) -> None:
    """Copy every source to its destination as if all at once; the results of bodies share no tensor (`results`)."""
    taken = {destination.id for destination in destinations}
    pairs = [(source, target) for source, target in zip(sources, destinations, strict=True) if source.id != target.id]
    numbers = []
    for source, target in pairs:
        if target.tensor is None and source.id in taken:
            kept = emitter._emit_evalue(EValue(Int(0)))
            _move(emitter, source, kept)
            source = kept
        numbers.append((source, target))
    for source, target in numbers:
        if target.tensor is None:
            _move(emitter, source, target)
        else:
            (waits,) = _values(emitter, [False])
            _call(emitter, "aten::copy_", "", [target, source, waits, target])


def _position(emitter: _Emitter) -> int:
    return emitter.instruction_start_offset + len(emitter.chain.instructions)


def _call(emitter: _Emitter, name: str, overload: str, arguments: Sequence[Value]) -> None:
    index, _ = emitter._get_operator(name=name, overload=overload)
    emitter.chain.instructions.append(Instruction(KernelCall(index, [argument.id for argument in arguments])))


def _move(emitter: _Emitter, source: Value, destination: Value) -> None:
    emitter.chain.instructions.append(Instruction(MoveCall(source.id, destination.id)))


def _jump_if_false(emitter: _Emitter, value: Value, destination: int = 0) -> JumpFalseCall:
    jump = JumpFalseCall(value.id, destination)
    emitter.chain.instructions.append(Instruction(jump))
    return jump
