"""The plan section of one emitted method: values with storages and lifetimes, symbols, inputs, outputs, state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch
import torch.utils._pytree as pytree
from executorch.exir.schema import Bool, DelegateCall, Double, ExecutionPlan, Int, Null, String, Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from .allocator import plan
from .allocator.errors import ExportError
from .capture import Capture
from .conditions import upper_bounds
from .device.dtypes import ITEM_BYTES
from .devices.placement import CPU
from .discoveries import TellingNodes, Told
from .instructions import read_steps
from .liveness import Lifetimes, MovedOutputError, Step, analyse
from .order import example_sizes, preferred_order
from .states import States, tell_lengths
from .symbols import InputSize, Registers, bind_symbols, name_symbols
from .traced import Size, expression, user_input_names
from .unbacked import is_unbacked
from .unplanned import NamedSizes
from .write_backs import last_appends, take_write_backs

__all__ = ["build_section"]

INT64_MAX = 2**63 - 1


@dataclass
class _Emitted:
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
    results = _result_nodes(program)
    for index in listed:
        for size in method.expressions(index):
            registers.want(size)
    known = set(symbols)
    for node in results:
        size = _size_result(node, known)
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
        guards=[plan.Guard(registers[expr], _readable(text, symbols, names)) for expr, text in kept],
        values=[_describe(method, index, lifetimes, position, outputs, registers) for index in listed],
        inputs=_inputs(method, position, symbols, list(capture.input_sizes)),
        outputs=_outputs(method, position, results, registers),
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


def _read(emitted: ExecutionPlan, program: ExportedProgram, sizes: NamedSizes, states: States) -> _Emitted:
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
    method = _Emitted(emitted, program, sizes, tensors, buffers, constants, telling)
    method.results = take_write_backs(emitted, {*buffers, *emitted.inputs}, method.expressions)
    method.results.update(last_appends(emitted, buffers))
    method.steps = read_steps(emitted)
    return method


def _stops(method: _Emitted, conditions: Mapping[sympy.Basic, str]) -> set[int]:
    """Instructions at which a number is told that a size or a condition needs."""
    needed = {symbol for expr, _ in method.conditions(conditions) for symbol in expr.free_symbols}
    for index in method.tensors:
        needed.update(*(getattr(size, "free_symbols", ()) for size in method.expressions(index)))
    return {told.instruction for told in method.telling.found if told.symbol in needed or told.upper is not None}


def _analyse(method: _Emitted, outputs: list[int], fixed: set[int], stops: set[int]) -> Lifetimes:
    layout = {index: (tensor.scalar_type, tuple(method.expressions(index))) for index, tensor in method.tensors.items()}
    try:
        return analyse(method.steps, layout, outputs, fixed, stops)
    except MovedOutputError as error:
        raise ExportError(
            f"method {method.plan.name!r}: the branches of control flow leave output {method.name(error.value)!r} in "
            "memory that is also used elsewhere; return copies (.clone()) from the branches"
        ) from error


def _discovery(
    told: Told, position: Mapping[int, int], symbols: list[sympy.Symbol], registers: Registers, method: _Emitted
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


def _listed(
    method: _Emitted, lifetimes: Lifetimes, outputs: list[int], fixed: set[int], counted: set[int]
) -> list[int]:
    """Tensors the section describes: all that need memory at run time, and the constants that these or outputs show."""
    needed = {index for index in method.tensors if lifetimes.owner[index] in lifetimes.life or index in fixed}
    varying = {index for index in needed if index not in method.constants} | set(outputs) | counted
    shown = varying | {lifetimes.owner[index] for index in varying}
    return sorted(shown)


def _symbols(
    method: _Emitted,
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


def _input_nodes(method: _Emitted) -> list[torch.fx.Node]:
    names = set(user_input_names(method.program))
    return [node for node in method.program.graph.nodes if node.op == "placeholder" and node.name in names]


def _input_sizes(method: _Emitted) -> list[InputSize]:
    sizes: list[InputSize] = []
    for position, node in enumerate(_input_nodes(method)):
        value = _value(node)
        if isinstance(value, torch.Tensor):
            sizes.extend(InputSize(position, dim, expression(size)) for dim, size in enumerate(value.shape))
        elif isinstance(value, torch.SymInt):
            sizes.append(InputSize(position, -1, expression(value)))
    return sizes


def _value(node: object) -> object:
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else node


def _size_result(node: object, known: set[sympy.Symbol]) -> Size | None:
    """The size that a result is, if it is an int that sizes of inputs determine."""
    value = _value(node)
    if not isinstance(value, int | torch.SymInt) or isinstance(value, bool):
        return None
    size = expression(value)
    return size if getattr(size, "free_symbols", set()) <= known else None


def _result_nodes(program: ExportedProgram) -> list[object]:
    return pytree.tree_flatten(program.graph_module.graph.output_node().args)[0]


def _describe(
    method: _Emitted,
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


def _inputs(
    method: _Emitted, position: Mapping[int, int], symbols: list[sympy.Symbol], names: Sequence[str]
) -> list[plan.Input]:
    """Describe the inputs, under the names they had before lowering renamed some."""
    mutated = {
        spec.target
        for spec in method.program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    }
    nodes = _input_nodes(method)
    if not len(names) == len(nodes) == len(method.plan.inputs):
        raise ExportError(f"{len(names)} inputs were exported, {len(method.plan.inputs)} were emitted")
    inputs = []
    for index, node, name in zip(method.plan.inputs, nodes, names, strict=True):
        result = position.get(method.results.get(index, -1), -1)
        item = plan.Input(index, name, mutated=node.name in mutated, result=result)
        _describe_input(item, method.plan.values[index].val, _value(node), position, symbols)
        inputs.append(item)
    return inputs


def _describe_input(
    item: plan.Input, emitted: object, value: object, position: Mapping[int, int], symbols: list[sympy.Symbol]
) -> None:
    item.scalar = _scalar(emitted)
    if item.scalar is plan.Scalar.TENSOR:
        item.value = position[item.index]
    elif isinstance(value, torch.SymInt):
        size = expression(value)
        if size in symbols:
            item.symbol = symbols.index(size)
        elif isinstance(size, int):
            item.int_value = size
        else:
            raise ExportError(f"input {item.name!r} is the expression {size} of other inputs; pass a plain int")
    elif isinstance(emitted, Int):
        item.int_value = emitted.int_val
    elif isinstance(emitted, Bool):
        item.int_value = int(emitted.bool_val)
    elif isinstance(emitted, Double):
        item.float_value = float(emitted.double_val)
    elif isinstance(emitted, String):
        item.string_value = emitted.string_val


def _scalar(emitted: object) -> plan.Scalar:
    kinds = {
        Tensor: plan.Scalar.TENSOR,
        Int: plan.Scalar.INT,
        Double: plan.Scalar.FLOAT,
        Bool: plan.Scalar.BOOL,
        String: plan.Scalar.STRING,
        Null: plan.Scalar.NONE,
    }
    if type(emitted) not in kinds:
        raise ExportError(f"inputs and outputs of kind {type(emitted).__name__} are not supported")
    return kinds[type(emitted)]


def _outputs(
    method: _Emitted, position: Mapping[int, int], results: list[object], registers: Registers
) -> list[plan.Output]:
    kinds = [
        spec.kind for spec in method.program.graph_signature.output_specs if spec.kind is not OutputKind.BUFFER_MUTATION
    ]
    if not len(kinds) == len(results) == len(method.plan.outputs):
        raise ExportError(
            f"method {method.plan.name!r}: {len(kinds)} outputs in its signature, {len(method.plan.outputs)} emitted"
        )
    outputs = []
    for index, kind, node in zip(method.plan.outputs, kinds, results, strict=True):
        output = plan.Output(index, _scalar(method.plan.values[index].val))
        output.hidden = kind is OutputKind.USER_INPUT_MUTATION
        size = _size_result(node, set(registers.symbols))
        if output.scalar is plan.Scalar.TENSOR:
            output.value = position[index]
        elif output.scalar is plan.Scalar.INT and size is not None:
            output.register = registers[size]
        outputs.append(output)
    return outputs


def _delegates(emitted: ExecutionPlan) -> list[plan.Delegate]:
    """Every call of a delegate, by the index it has in the finished file (see `embed`)."""
    return [
        plan.Delegate(call.delegate_index + 1, emitted.delegates[call.delegate_index].id, position, list(call.args))
        for chain in emitted.chains
        for position, instruction in enumerate(chain.instructions)
        if isinstance(call := instruction.instr_args, DelegateCall)
    ]


def _readable(text: str, symbols: Sequence[sympy.Symbol], names: Sequence[str]) -> str:
    expr_names = {str(symbol): name for symbol, name in zip(symbols, names, strict=True)}
    for symbol, name in sorted(expr_names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(symbol, name)
    return text
