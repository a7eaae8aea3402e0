"""Consistency of a plan section: every index, range, enumeration and register, so that readers need no checks."""

from .errors import PlanError
from .item_bytes import ITEM_BYTES
from .plan_tables import VERSION, Discovery, Input, Kind, Method, Output, Scalar, State, Teller, Value
from .sizes import Opcode, SizeProgram, symbols_of_registers

__all__ = ["MAX_RANK", "validate"]

MAX_RANK = 16  # ExecuTorch's kTensorDimensionLimit
INT8_MAX = 2**7 - 1
INT32_MAX = 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def validate(method: Method) -> None:
    """Raise PlanError naming the first inconsistent field of `method`, if there is one."""
    if method.version != VERSION:
        raise PlanError(f"version: {method.version} is not {VERSION}")
    _text(method.name, "name")
    _within(method.instructions, 0, INT32_MAX, "instructions")
    if len(method.labels) != method.instructions:
        raise PlanError(f"labels: {len(method.labels)} labels for {method.instructions} instructions")
    for i, label in enumerate(method.labels):
        _text(label, f"labels[{i}]")
    program = SizeProgram(len(method.symbols), method.size_code)
    registers = program.n_registers
    for i, value in enumerate(method.values):
        _check_value(method, value, registers, f"values[{i}]", i)
    for i, guard in enumerate(method.guards):
        _within(guard.register, 0, registers - 1, f"guards[{i}].register")
        _text(guard.text, f"guards[{i}].text")
    for i, item in enumerate(method.inputs):
        _check_input(method, item, f"inputs[{i}]")
    for i, output in enumerate(method.outputs):
        _check_output(method, output, registers, f"outputs[{i}]")
    _check_symbols(method)
    _check_upper_bounds(method, registers)
    constants = _constants(method)
    for i, state in enumerate(method.states):
        _check_state(method, state, constants, f"states[{i}]")
    _check_delegates(method)
    _check_order(method)


def _within(number: int, low: int, high: int, name: str) -> None:
    if not isinstance(number, int):
        raise PlanError(f"{name}: {number!r} is no integer")
    if not low <= number <= high:
        expected = f"{low} to {high}" if low <= high else "none, because there is nothing to point at"
        raise PlanError(f"{name}: {number} is out of range (expected {expected})")


def _text(text: str, name: str) -> None:
    if not isinstance(text, str):
        raise PlanError(f"{name}: {text!r} is no text")


def _check_symbols(method: Method) -> None:
    for i, symbol in enumerate(method.symbols):
        _text(symbol.name, f"symbols[{i}].name")
        _within(symbol.min, INT64_MIN, INT64_MAX, f"symbols[{i}].min")
        _within(symbol.max, symbol.min, INT64_MAX, f"symbols[{i}].max")
    bound = set()
    for i, binding in enumerate(method.bindings):
        name = f"bindings[{i}]"
        _within(binding.symbol, 0, len(method.symbols) - 1, f"{name}.symbol")
        _within(binding.input, 0, len(method.inputs) - 1, f"{name}.input")
        source = method.inputs[binding.input]
        if source.scalar is Scalar.TENSOR:
            _within(binding.dim, 0, len(method.values[source.value].sizes) - 1, f"{name}.dim")
        elif source.scalar is Scalar.INT:
            _within(binding.dim, -1, -1, f"{name}.dim")
        else:
            raise PlanError(f"{name}.input: input {source.name!r} is a {source.scalar.name}, which has no size")
        _within(binding.scale, 1, INT64_MAX, f"{name}.scale")
        _within(binding.offset, INT64_MIN, INT64_MAX, f"{name}.offset")
        bound.add(binding.symbol)
    for i, discovery in enumerate(method.discoveries):
        name = f"discoveries[{i}]"
        _check_discovery(method, discovery, name)
        if discovery.symbol in bound:
            raise PlanError(f"{name}.symbol: a binding defines {method.symbols[discovery.symbol].name!r} already")
    bound.update(discovery.symbol for discovery in method.discoveries)
    for i, symbol in enumerate(method.symbols):
        if i not in bound:
            raise PlanError(f"symbols[{i}]: no binding and no discovery says what defines {symbol.name!r}")


def _check_discovery(method: Method, discovery: Discovery, name: str) -> None:
    teller = discovery.teller
    if not isinstance(teller, Teller):
        raise PlanError(f"{name}.teller: {teller!r} is no Teller")
    _text(discovery.origin, f"{name}.origin")
    _within(discovery.symbol, 0, len(method.symbols) - 1, f"{name}.symbol")
    _within(discovery.scale, 1, INT64_MAX, f"{name}.scale")
    _within(discovery.offset, INT64_MIN, INT64_MAX, f"{name}.offset")
    n_instructions = 1 if teller is Teller.STATE_LENGTH else method.instructions
    _within(discovery.instruction, 0, n_instructions - 1, f"{name}.instruction")
    if teller is Teller.SCALAR:
        _within(discovery.value, -1, -1, f"{name}.value")
        _within(discovery.index, 0, INT32_MAX, f"{name}.index")
        return
    _within(discovery.index, -1, -1, f"{name}.index")
    position = discovery.value
    if teller is Teller.STATE_LENGTH:
        _within(position, 0, len(method.states) - 1, f"{name}.value")
        position = method.states[position].value
    _within(position, 0, len(method.values) - 1, f"{name}.value")
    if teller is not Teller.COUNT_NONZERO:
        _within(discovery.dim, 0, len(method.values[position].sizes) - 1, f"{name}.dim")


def _check_upper_bounds(method: Method, registers: int) -> None:
    """An upper bound is known before the number it bounds, so it cannot depend on it."""
    depends = symbols_of_registers(len(method.symbols), method.size_code)
    for i, discovery in enumerate(method.discoveries):
        limit = registers - 1 if discovery.teller is Teller.SIZE else -1
        _within(discovery.upper, -1, limit, f"discoveries[{i}].upper")
        if discovery.upper >= 0 and depends[discovery.upper] >> discovery.symbol & 1:
            raise PlanError(f"discoveries[{i}].upper: the bound depends on the number that it bounds")


def _check_value(method: Method, value: Value, registers: int, name: str, position: int) -> None:
    _within(value.index, 0, INT32_MAX, f"{name}.index")
    if position and value.index <= method.values[position - 1].index:
        raise PlanError(f"{name}.index: {value.index} does not come after {method.values[position - 1].index}")
    _text(value.name, f"{name}.name")
    _text(value.definition, f"{name}.definition")
    if value.dtype not in ITEM_BYTES:
        raise PlanError(f"{name}.dtype: {value.dtype} is no ScalarType code with a fixed element size")
    rank = len(value.sizes)
    _within(rank, 0, MAX_RANK, f"{name}.sizes: rank")
    for dim, register in enumerate(value.sizes):
        _within(register, 0, registers - 1, f"{name}.sizes[{dim}]")
    if sorted(value.dim_order) != list(range(rank)):
        raise PlanError(f"{name}.dim_order: {value.dim_order} is no permutation of {rank} dimensions")
    if not isinstance(value.kind, Kind):
        raise PlanError(f"{name}.kind: {value.kind!r} is no Kind")
    _within(value.storage, 0, len(method.values) - 1, f"{name}.storage")
    owner = method.values[value.storage]
    if owner.storage != value.storage:
        raise PlanError(f"{name}.storage: values[{value.storage}] does not own its memory")
    if owner.kind != value.kind:
        raise PlanError(f"{name}.kind: {value.kind.name} differs from its storage's {owner.kind.name}")
    _within(value.device_type, 0, INT8_MAX, f"{name}.device_type")
    _within(value.device_index, 0, INT8_MAX, f"{name}.device_index")
    if (owner.device_type, owner.device_index) != (value.device_type, value.device_index):
        raise PlanError(f"{name}.device_type: the value and its storage lie on different devices")
    if value.device_type and value.kind in (Kind.CONSTANT, Kind.STATE):
        raise PlanError(f"{name}.device_type: a value of kind {value.kind.name} lies on the CPU")
    lowest = value.first + 1 if owner is value and value.kind is Kind.ACTIVATION else value.first
    _within(value.first, 0, method.instructions, f"{name}.first")
    _within(value.last, lowest, method.instructions, f"{name}.last")


def _check_input(method: Method, item: Input, name: str) -> None:
    _within(item.index, 0, INT32_MAX, f"{name}.index")
    _text(item.name, f"{name}.name")
    _text(item.string_value, f"{name}.string_value")
    _check_scalar(method, item, name)
    is_int = item.scalar is Scalar.INT
    _within(item.symbol, -1, len(method.symbols) - 1 if is_int else -1, f"{name}.symbol")
    _within(item.int_value, INT64_MIN, INT64_MAX, f"{name}.int_value")
    _check_result(method, item.result, item.value, f"{name}.result")


def _check_output(method: Method, output: Output, registers: int, name: str) -> None:
    _within(output.index, 0, INT32_MAX, f"{name}.index")
    _check_scalar(method, output, name)
    _within(output.register, -1, registers - 1 if output.scalar is Scalar.INT else -1, f"{name}.register")


def _check_scalar(method: Method, item: Input | Output, name: str) -> None:
    if not isinstance(item.scalar, Scalar):
        raise PlanError(f"{name}.scalar: {item.scalar!r} is no Scalar")
    if item.scalar is Scalar.TENSOR:
        _within(item.value, 0, len(method.values) - 1, f"{name}.value")
    else:
        _within(item.value, -1, -1, f"{name}.value")


def _constants(method: Method) -> dict[int, int]:
    """Registers whose content does not depend on the inputs, as far as the code says so outright."""
    first = len(method.symbols)
    return {first + i: step.a for i, step in enumerate(method.size_code) if step.opcode == Opcode.CONST}


def _check_result(method: Method, result: int, value: int, name: str) -> None:
    """What becomes of an input or state must be of its kind."""
    _within(result, -1, len(method.values) - 1 if value >= 0 else -1, name)
    if result < 0:
        return
    new, old = method.values[result], method.values[value]
    if (new.dtype, new.dim_order) != (old.dtype, old.dim_order):
        raise PlanError(f"{name}: values[{result}] differs in dtype or dim order from values[{value}]")


def _check_state(method: Method, state: State, constants: dict[int, int], name: str) -> None:
    _text(state.name, f"{name}.name")
    _within(state.value, 0, len(method.values) - 1, f"{name}.value")
    value = method.values[state.value]
    if value.kind is not Kind.STATE:
        raise PlanError(f"{name}.value: values[{state.value}] is of kind {value.kind.name}")
    _check_result(method, state.result, state.value, f"{name}.result")
    _within(state.dim, -1, len(value.sizes) - 1, f"{name}.dim")
    _within(state.length, 0, INT32_MAX if state.dim >= 0 else 0, f"{name}.length")
    _within(state.window, 0, INT64_MAX if state.dim >= 0 else 0, f"{name}.window")
    if state.dim >= 0:
        _check_growth(method, state, constants, name)
    nbytes = ITEM_BYTES[value.dtype] * (state.length if state.dim >= 0 else 1)
    sizes = [register for dim, register in enumerate(value.sizes) if dim != state.dim]
    if state.initial and all(register in constants for register in sizes):
        for register in sizes:
            nbytes *= constants[register]
        if nbytes != len(state.initial):
            raise PlanError(f"{name}.initial: {len(state.initial)} bytes for a state of {nbytes} bytes")


def _check_growth(method: Method, state: State, constants: dict[int, int], name: str) -> None:
    """Entries of a fixed size, the growing dimension outermost, and every value there a longer or shorter cache."""
    value = method.values[state.value]
    before = value.dim_order[: value.dim_order.index(state.dim)]
    for dim, register in enumerate(value.sizes):
        if dim == state.dim:
            continue
        if constants.get(register, -1) < 0:
            raise PlanError(f"{name}.value: size {dim} of a state that grows in dimension {state.dim} must be fixed")
        if dim in before and constants[register] != 1:
            raise PlanError(f"{name}.dim: dimension {state.dim} is not the outermost in memory")
    if state.result >= 0:
        result = method.values[state.result]
        if result.storage != state.value:
            raise PlanError(f"{name}.result: values[{state.result}] lies elsewhere")
        if [r for d, r in enumerate(result.sizes) if d != state.dim] != [
            r for d, r in enumerate(value.sizes) if d != state.dim
        ]:
            raise PlanError(f"{name}.result: the entries of values[{state.result}] have another size")


def _check_delegates(method: Method) -> None:
    for i, delegate in enumerate(method.delegates):
        name = f"delegates[{i}]"
        _within(delegate.index, 0, INT32_MAX, f"{name}.index")
        _text(delegate.id, f"{name}.id")
        _within(delegate.instruction, 0, method.instructions - 1, f"{name}.instruction")
        for j, argument in enumerate(delegate.arguments):
            _within(argument, 0, INT32_MAX, f"{name}.arguments[{j}]")


def _check_order(method: Method) -> None:
    seen: set[int] = set()
    for i, position in enumerate(method.order):
        _within(position, 0, len(method.values) - 1, f"order[{i}]")
        value = method.values[position]
        if not value.is_planned or value.storage != position:
            raise PlanError(f"order[{i}]: values[{position}] is no planned buffer")
        if position in seen:
            raise PlanError(f"order[{i}]: values[{position}] comes twice")
        seen.add(position)
