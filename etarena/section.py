"""The plan section of one emitted method: values with storages and lifetimes, symbols, inputs, outputs, state."""

from collections.abc import Mapping, Sequence

import sympy
import torch
from executorch.exir.schema import DelegateCall, ExecutionPlan, Tensor
from torch.export import ExportedProgram

from .allocator import plan
from .allocator.errors import ExportError
from .allocator.size_binding import InputSize, bind_symbols
from .capture import Capture
from .conditions import upper_bounds
from .described_arguments import described_inputs, described_outputs
from .device.dtypes import ITEM_BYTES
from .devices.placement import CPU
from .discoveries import TellingNodes, Told
from .emitted import Emitted, input_nodes, result_nodes, size_result, value_of
from .instructions import read_steps
from .liveness import Lifetimes, MovedOutputError, analyse
from .order import example_sizes, preferred_order
from .states import States, tell_lengths
from .symbols import Registers, name_symbols, named_text
from .traced import expression
from .unbacked import is_unbacked
from .unplanned import NamedSizes
from .write_backs import last_appends, take_write_backs

__all__ = ["build_section"]

INT64_MAX = 2**63 - 1


def build_section(
    emitted: ExecutionPlan,
    program: ExportedProgram,
    capture: Capture,
    sizes: NamedSizes,
    conditions: Mapping[sympy.Basic, str],
    states: States,
) -> plan.Method:
    """Describe one method to the run-time planner.

    Parameters
    ----------
    emitted : ExecutionPlan
        The method as the emitter left it.
    program : ExportedProgram
        What it was emitted from; its placeholders are the first values of `emitted`.
    capture : Capture
        The method before lowering.
    sizes : NamedSizes
        Symbolic sizes by tensor name.
    conditions : mapping of sympy.Basic to str
        What must be true of the sizes, and the words for it.
    states : States
        The mutable buffers of the whole program.

    Raises
    ------
    ExportError
        If control flow or sizes are of a kind that cannot be planned.
    """
    method = _read(emitted, program, sizes, states)
    outputs = [index for index in emitted.outputs if index in method.tensors]
    fixed = {*emitted.inputs, *method.buffers, *method.constants} & set(method.tensors)
    returned = [*outputs, *method.results.values()]
    method.telling.read(upper_bounds(conditions, capture.ranges))
    told = method.telling.found
    stops = _stops(method, conditions)
    lifetimes = _analyse(method, returned, fixed, stops)
    listed = _listed(method, lifetimes, returned, fixed, {entry.value for entry in told if entry.value >= 0})

    symbols = _symbols(method, listed, conditions, capture.ranges)
    registers = Registers(symbols)
    input_sizes = _input_sizes(method)
    results = result_nodes(program)
    for index in listed:
        for size in method.expressions(index):
            registers.want(size)
    known = set(symbols)
    for node in results:
        size = size_result(node, known)
        if size is not None:
            registers.want(size)
    kept = [(expr, text) for expr, text in method.conditions(conditions) if expr.free_symbols <= known]
    told = [entry for entry in told if entry.symbol in known]
    for entry in told:
        registers.want(0 if entry.upper is None else method.current(entry.upper))
    for expr, _ in kept:
        registers.want(expr)
    registers.compile()

    position = {index: i for i, index in enumerate(listed)}
    held = [index for index in method.buffers if index in position]
    grown = [(states.growth.get(method.buffers[i]), method.expressions(i)) for i in held]
    lengths = tell_lengths(symbols, input_sizes, grown)
    sizes_of = [(method.buffers.get(lifetimes.owner[i], ""), method.expressions(i)) for i in listed]
    states.refuse_told_entries(emitted.name, sizes_of, {symbols[entry.symbol] for entry in lengths})
    numbers = {entry.symbol for entry in told if entry.teller is plan.Teller.SCALAR}
    names = name_symbols(symbols, capture.names)
    section = plan.Method(
        name=emitted.name,
        instructions=len(method.steps),
        labels=[step.label for step in method.steps],
        symbols=[
            plan.Symbol(name, *capture.ranges.get(symbol, (-INT64_MAX if symbol in numbers else 0, INT64_MAX)))
            for symbol, name in zip(symbols, names, strict=True)
        ],
        bindings=bind_symbols(
            symbols, input_sizes, {entry.symbol for entry in told} | {symbols[entry.symbol] for entry in lengths}
        ),
        size_code=registers.code,
        guards=[plan.Guard(registers[expr], named_text(text, symbols, names)) for expr, text in kept],
        values=[_describe(method, index, lifetimes, position, outputs, registers) for index in listed],
        inputs=described_inputs(method, position, symbols, list(capture.input_sizes)),
        outputs=described_outputs(method, position, results, registers),
        states=[
            states.describe(method.buffers[i], position[i], position.get(method.results.get(i, -1), -1)) for i in held
        ],
        delegates=_delegates(emitted),
        discoveries=[*lengths, *(_discovery(entry, position, symbols, registers, method) for entry in told)],
    )
    examples = example_sizes(capture.program, symbols)
    if examples is not None:
        section.order = preferred_order(section, examples)
    return section


def _read(emitted: ExecutionPlan, program: ExportedProgram, sizes: NamedSizes, states: States) -> Emitted:
    tensors = {index: value.val for index, value in enumerate(emitted.values) if isinstance(value.val, Tensor)}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    signature = program.graph_signature
    lifted = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    fqns = {index: lifted[node.target] for index, node in enumerate(placeholders) if node.target in lifted}
    buffers = {index: fqn for index, fqn in fqns.items() if fqn in states.start and tensors[index].data_buffer_idx == 0}
    constants = {
        index: fqns.get(index, f"constant_{index}")
        for index, tensor in tensors.items()
        if tensor.data_buffer_idx > 0 and index not in buffers
    }
    named = {
        tensor.extra_tensor_info.fully_qualified_name: index
        for index, tensor in tensors.items()
        if tensor.extra_tensor_info is not None and tensor.extra_tensor_info.fully_qualified_name
    }
    states.lay_out({name: tensors[index] for index, name in buffers.items()})
    telling = TellingNodes(emitted, program.graph_module, named)
    method = Emitted(emitted, program, sizes, tensors, buffers, constants, telling)
    method.results = take_write_backs(emitted, {*buffers, *emitted.inputs}, method.expressions)
    method.results.update(last_appends(emitted, buffers))
    method.steps = read_steps(emitted)
    return method


def _stops(method: Emitted, conditions: Mapping[sympy.Basic, str]) -> set[int]:
    """Instructions at which a number is told that a size or a condition needs."""
    needed = {symbol for expr, _ in method.conditions(conditions) for symbol in expr.free_symbols}
    for index in method.tensors:
        needed.update(*(getattr(size, "free_symbols", ()) for size in method.expressions(index)))
    return {told.instruction for told in method.telling.found if told.symbol in needed or told.upper is not None}


def _analyse(method: Emitted, outputs: list[int], fixed: set[int], stops: set[int]) -> Lifetimes:
    layout = {index: (tensor.scalar_type, tuple(method.expressions(index))) for index, tensor in method.tensors.items()}
    try:
        return analyse(method.steps, layout, outputs, fixed, stops)
    except MovedOutputError as error:
        raise ExportError(
            f"method {method.plan.name!r}: the branches of control flow leave output {method.name(error.value)!r} in "
            "memory that is also used elsewhere; return copies (.clone()) from the branches"
        ) from error


def _discovery(
    told: Told, position: Mapping[int, int], symbols: list[sympy.Symbol], registers: Registers, method: Emitted
) -> plan.Discovery:
    assert told.symbol is not None
    return plan.Discovery(
        symbol=symbols.index(told.symbol),
        teller=told.teller,
        instruction=told.instruction,
        value=position[told.value] if told.value >= 0 else -1,
        index=told.index,
        dim=told.dim,
        upper=-1 if told.upper is None else registers[method.current(told.upper)],
        scale=told.scale,
        offset=told.offset,
        origin=told.origin,
    )


def _is_size(value: object) -> bool:
    """Whether a result is an int that the sizes of inputs determine, or that never changes."""
    return isinstance(value, int | torch.SymInt) and not isinstance(value, bool) and not is_unbacked(value)


def _listed(method: Emitted, lifetimes: Lifetimes, outputs: list[int], fixed: set[int], counted: set[int]) -> list[int]:
    """Tensors the section describes: all that need memory at run time, and the constants that these or outputs show."""
    needed = {index for index in method.tensors if lifetimes.owner[index] in lifetimes.life or index in fixed}
    varying = {index for index in needed if index not in method.constants} | set(outputs) | counted
    shown = varying | {lifetimes.owner[index] for index in varying}
    return sorted(shown)


def _symbols(
    method: Emitted,
    listed: list[int],
    conditions: Mapping[sympy.Basic, str],
    ranges: Mapping[sympy.Symbol, tuple[int, int]],
) -> list[sympy.Symbol]:
    """Symbols of inputs and of planned values, and those that data tells where a condition restricts them."""
    found: dict[sympy.Symbol, None] = {}
    for entry in _input_sizes(method):
        found.update((symbol, None) for symbol in sorted(getattr(entry.size, "free_symbols", ()), key=str))
    for index in listed:
        for size in method.expressions(index):
            found.update((symbol, None) for symbol in sorted(getattr(size, "free_symbols", ()), key=str))
    needed = set(ranges).union(*(expr.free_symbols for expr, _ in method.conditions(conditions)))
    for told in method.telling.found:
        needed |= set() if told.upper is None else sympy.sympify(method.current(told.upper)).free_symbols
    found.update((told.symbol, None) for told in method.telling.found if told.symbol in needed)
    return list(found)


def _input_sizes(method: Emitted) -> list[InputSize]:
    sizes: list[InputSize] = []
    for position, node in enumerate(input_nodes(method)):
        value = value_of(node)
        if isinstance(value, torch.Tensor):
            sizes.extend(InputSize(position, dim, expression(size)) for dim, size in enumerate(value.shape))
        elif isinstance(value, torch.SymInt):
            sizes.append(InputSize(position, -1, expression(value)))
    return sizes


def _describe(
    method: Emitted,
    index: int,
    lifetimes: Lifetimes,
    position: Mapping[int, int],
    outputs: Sequence[int],
    registers: Registers,
) -> plan.Value:
    tensor = method.tensors[index]
    if int(tensor.scalar_type) not in ITEM_BYTES:
        raise ExportError(
            f"method {method.plan.name!r}: {method.name(index)!r} has dtype {tensor.scalar_type.name.lower()}, which "
            "the runtime does not support; convert to another dtype there"
        )
    owner = lifetimes.owner[index]
    returned = {lifetimes.owner[output] for output in outputs}
    if owner in method.plan.inputs:
        kind = plan.Kind.INPUT
    elif owner in method.buffers:
        kind = plan.Kind.STATE
    elif owner in method.constants:
        kind = plan.Kind.CONSTANT
    else:
        kind = plan.Kind.OUTPUT if owner in returned else plan.Kind.ACTIVATION
    first, last = lifetimes.life.get(owner, (0, 0)) if owner == index else (0, 0)
    device = method.sizes.devices.get(method.name(owner), CPU)
    made = lifetimes.definition.get(index) if kind in (plan.Kind.OUTPUT, plan.Kind.ACTIVATION) else None
    return plan.Value(
        index=index,
        name=method.name(index),
        dtype=int(tensor.scalar_type),
        sizes=[registers[size] for size in method.expressions(index)],
        dim_order=[int(dim) for dim in tensor.dim_order],
        storage=position[owner],
        kind=kind,
        first=first,
        last=last,
        definition="" if made is None else method.steps[made].label,
        device_type=int(device.type),
        device_index=device.index,
    )


def _delegates(emitted: ExecutionPlan) -> list[plan.Delegate]:
    """Every call of a delegate, by the index it has in the finished file (see `embed`)."""
    return [
        plan.Delegate(call.delegate_index + 1, emitted.delegates[call.delegate_index].id, position, list(call.args))
        for chain in emitted.chains
        for position, instruction in enumerate(chain.instructions)
        if isinstance(call := instruction.instr_args, DelegateCall)
    ]
