"""What the sizes of a method depend on, and when its values can be placed, read off its plan section."""

from typing import Any

from .allocator.plan import Kind, Method, Teller
from .allocator.sizes import symbols_of_registers
from .expressions import size_text

__all__ = ["dynamic_values", "origins", "shared_memory", "stages"]


def register_symbols(method: Method) -> list[list[int]]:
    """The symbols that each register of the size program depends on."""
    masks = symbols_of_registers(len(method.symbols), method.size_code)
    return [[symbol for symbol in range(len(method.symbols)) if mask >> symbol & 1] for mask in masks]


def dynamic_values(method: Method) -> list[dict[str, Any]]:
    """Each value whose size varies: its name, shape, the symbols that it depends on, and what makes it."""
    depends = register_symbols(method)
    described = []
    for value in method.values:
        symbols = {symbol for register in value.sizes for symbol in depends[register]}
        if symbols:
            described.append(
                {
                    "value": value.name,
                    "shape": [size_text(method, register) for register in value.sizes],
                    "depends_on": [method.symbols[symbol].name for symbol in sorted(symbols)],
                    "made_by": value.definition,
                    "kind": value.kind.name.lower(),
                }
            )
    return described


def origins(method: Method) -> dict[str, list[str]]:
    """In words, where each symbol comes from."""
    found: dict[str, list[str]] = {symbol.name: [] for symbol in method.symbols}
    for binding in method.bindings:
        name = method.inputs[binding.input].name
        what = f"input {name!r}" if binding.dim < 0 else f"size {binding.dim} of input {name!r}"
        found[method.symbols[binding.symbol].name].append(what + _affine(binding.scale, binding.offset))
    for entry in method.discoveries:
        if entry.teller is Teller.STATE_LENGTH:
            what = f"size {entry.dim} of state {method.states[entry.value].name!r}"
        else:
            what = f"{_told(entry.teller)} {entry.origin}, at instruction {entry.instruction}"
        found[method.symbols[entry.symbol].name].append(what + _affine(entry.scale, entry.offset))
    return found


def _told(teller: Teller) -> str:
    return {
        Teller.COUNT_NONZERO: "non-zero elements counted for",
        Teller.SCALAR: "number read by",
        Teller.SIZE: "size of the result of",
    }[teller]


def _affine(scale: int, offset: int) -> str:
    if (scale, offset) == (1, 0):
        return ""
    sign = "-" if offset < 0 else "+"
    return f" (which is {scale} times it{f' {sign} {abs(offset)}' if offset else ''})"


def stages(method: Method) -> list[dict[str, Any]]:
    """When sizes become known, and what is placed then: first when the call begins, then at each stop in turn."""
    stops: dict[tuple[int, str], dict[str, Any]] = {}
    entries = sorted(
        method.discoveries, key=lambda entry: (entry.instruction, entry.teller is not Teller.COUNT_NONZERO)
    )
    for entry in entries:
        if entry.teller is Teller.STATE_LENGTH:
            continue
        when = "before" if entry.teller is Teller.COUNT_NONZERO else "after"
        stop = stops.setdefault(
            (entry.instruction, when),
            {"instruction": entry.instruction, "when": when, "operator": entry.origin, "known": [], "planned": []},
        )
        if method.symbols[entry.symbol].name not in stop["known"]:
            stop["known"].append(method.symbols[entry.symbol].name)
    told = {symbol for stop in stops.values() for symbol in stop["known"]}
    start: dict[str, Any] = {"instruction": 0, "when": "call begins", "operator": "", "known": [], "planned": []}
    start["known"] = [symbol.name for symbol in method.symbols if symbol.name not in told]
    found = [start, *stops.values()]
    for name, at in _placed(method, found):
        found[at]["planned"].append(name)
    return found


def _placed(method: Method, found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Owners of memory that a plan places, each with the first stage at which all sizes are known."""
    depends = register_symbols(method)
    first: dict[str, int] = {}
    for at, stage in enumerate(found):
        for name in stage["known"]:
            first.setdefault(name, at)
    bounds = {entry.value: entry.upper for entry in method.discoveries if entry.upper >= 0}
    sizes: dict[int, set[int]] = {}
    for position, value in enumerate(method.values):
        if value.kind in (Kind.ACTIVATION, Kind.OUTPUT):
            sizes.setdefault(value.storage, set()).update([bounds[position]] if position in bounds else value.sizes)
    return [
        (
            method.values[owner].name,
            max((first[method.symbols[s].name] for r in registers for s in depends[r]), default=0),
        )
        for owner, registers in sorted(sizes.items())
        if method.values[owner].kind in (Kind.ACTIVATION, Kind.OUTPUT)
    ]


def shared_memory(method: Method) -> list[dict[str, str]]:
    """Values that lie in the memory of another: aliases, results of branches, views of inputs and state."""
    return [
        {"value": value.name, "in": method.values[value.storage].name}
        for position, value in enumerate(method.values)
        if value.storage != position
    ]
