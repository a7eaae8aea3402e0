"""A plan section as plain data: inputs, symbols, outputs, state and delegates of a method."""

from collections import Counter
from typing import Any

from .allocator.plan import Kind, Method, Scalar
from .device.dtypes import dtype_name
from .expressions import size_text

__all__ = ["INT64_MAX", "describe_method"]

INT64_MAX = 2**63 - 1


def describe_method(method: Method) -> dict[str, Any]:
    """Return what a plan section says about a method, as plain data."""
    return {
        "name": method.name,
        "inputs": [_input(method, item) for item in method.inputs],
        "outputs": [_output(method, item) for item in method.outputs if not item.hidden],
        "symbols": [
            {"name": symbol.name, "min": symbol.min, "max": None if symbol.max >= INT64_MAX else symbol.max}
            for symbol in method.symbols
        ],
        "told": [
            {
                "symbol": method.symbols[entry.symbol].name,
                "by": entry.origin,
                "how": entry.teller.name.lower(),
                "instruction": entry.instruction,
            }
            for entry in method.discoveries
        ],
        "guards": [guard.text for guard in method.guards],
        "state": [{"name": state.name, **_tensor(method, state.value)} for state in method.states],
        "delegates": dict(Counter(delegate.id for delegate in method.delegates)),
        "instructions": method.instructions,
        "planned_buffers": sum(
            value.kind is Kind.ACTIVATION and value.storage == position for position, value in enumerate(method.values)
        ),
    }


def _tensor(method: Method, position: int) -> dict[str, Any]:
    value = method.values[position]
    return {
        "dtype": dtype_name(value.dtype),
        "shape": [size_text(method, register) for register in value.sizes],
    }


def _input(method: Method, item: Any) -> dict[str, Any]:
    data = {"name": item.name, "kind": item.scalar.name.lower()}
    if item.scalar is Scalar.TENSOR:
        return data | _tensor(method, item.value)
    if item.symbol >= 0:
        return data | {"symbol": method.symbols[item.symbol].name}
    return data | {"value": _constant(item)}


def _constant(item: Any) -> object:
    values = {
        Scalar.INT: item.int_value,
        Scalar.BOOL: bool(item.int_value),
        Scalar.FLOAT: item.float_value,
        Scalar.STRING: item.string_value,
    }
    return values.get(item.scalar)


def _output(method: Method, item: Any) -> dict[str, Any]:
    data = {"kind": item.scalar.name.lower()}
    if item.scalar is Scalar.TENSOR:
        return data | _tensor(method, item.value)
    return data | ({"size": size_text(method, item.register)} if item.register >= 0 else {})
