"""An explanation as text for people."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["explanation_text"]

SHOWN = 6


def explanation_text(data: dict[str, Any]) -> str:
    """Return what `Explanation.to_dict` says, as lines for people."""
    lines = list(_refused(data["refused"])) if not data["exported"] else []
    for method in data["methods"]:
        lines += [*([""] if lines else []), *_method(method)]
    return "\n".join(lines)


def _refused(refused: Sequence[dict[str, str]]) -> Iterator[str]:
    yield f"cannot be exported: {_count(len(refused), 'reason')}"
    ways: dict[str, None] = {}
    for entry in refused:
        what = entry["operator"] or "the model"
        where = f" (node {entry['node']})" if entry["node"] else ""
        of = f" in method {entry['method']}" if entry["method"] else ""
        first, *rest = [line.strip() for line in entry["reason"].splitlines() if line.strip()] or [""]
        yield f"  {what}{where}{of}: {first}"
        yield from (f"    {line}" for line in rest)
        if entry["source"]:
            yield f"    at {entry['source']}"
        if entry["way_out"]:
            ways.setdefault(entry["way_out"])
    yield from (f"  way out: {way}" for way in ways)


def _method(method: dict[str, Any]) -> Iterator[str]:
    yield f"method {method['name']}: {_count(method['instructions'], 'instruction')}, " + _count(
        method["planned_buffers"], "planned buffer"
    )
    yield from _symbols(method)
    yield from _dynamic(method["dynamic"])
    yield from _stages(method["stages"])
    yield from _operators(method)
    yield from _memory(method)


def _symbols(method: dict[str, Any]) -> Iterator[str]:
    yield "  sizes" if method["symbols"] else "  sizes: all fixed"
    for symbol in method["symbols"]:
        high = "any" if symbol["max"] is None else str(symbol["max"])
        sources = " and ".join(method["known_from"][symbol["name"]]) or "nothing names it"
        yield f"    {symbol['name']} ({symbol['min']} to {high}): {sources}"
    yield from (f"    must hold: {guard}" for guard in method["guards"])


def _dynamic(dynamic: Sequence[dict[str, Any]]) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for entry in dynamic:
        groups[tuple(entry["depends_on"])].append(entry)
    if groups:
        yield "  dynamic values"
    for symbols, entries in groups.items():
        texts = (f"{entry['value']} [{', '.join(entry['shape'])}]" for entry in entries)
        yield f"    by {', '.join(symbols)}: {_few(list(texts))}"


def _stages(stages: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"  stages: {len(stages)}"
    for number, stage in enumerate(stages):
        if number == 0:
            text = "when the call begins"
        else:
            text = f"{stage['when']} instruction {stage['instruction']}, {stage['operator']}"
        known = ", ".join(stage["known"]) or "nothing new"
        planned = _few(stage["planned"]) if stage["planned"] else "nothing"
        yield f"    {number}: {text}: known {known}; planned {planned}"
        if stage["source"]:
            yield f"       at {stage['source']}"


def _operators(method: dict[str, Any]) -> Iterator[str]:
    for backend, calls in method["delegates"].items():
        at = [str(call["instruction"]) for call in method["delegate_calls"] if call["backend"] == backend]
        yield f"  delegate {backend}: {_count(calls, 'call')}, at instruction {_few(at)}"
        listed = [f"{name} x {count}" for name, count in method["delegate_operators"][backend].items()]
        yield f"    takes {', '.join(listed)}"
    passed = Counter((one["backend"], one["operator"], "; ".join(one["reasons"])) for one in method["passed_on"])
    for (backend, operator, reason), count in passed.items():
        yield f"  left to {backend}: {operator}{_times(count)}: {reason}"
    texts = [f"{name} x {count}" for name, count in method["cpu_operators"].items()]
    yield f"  CPU kernels: {', '.join(texts) or 'none'}"
    if method["size_arithmetic"]:
        yield f"  arithmetic on sizes: {_count(method['size_arithmetic'], 'instruction')}"
    reasons = Counter(
        (left["operator"], "; ".join(left["reasons"]) or "the partitioner gives no reason", left["source"])
        for left in method["not_taken"]
    )
    for (operator, reason, source), count in reasons.items():
        yield f"  not taken: {operator}{_times(count)}: {reason}"
        if source:
            yield f"    at {source}"


def _memory(method: dict[str, Any]) -> Iterator[str]:
    shared = [f"{entry['value']} in {entry['in']}" for entry in method["shared_memory"]]
    if shared:
        yield f"  shared memory: {_few(shared)}"
    if method["state"]:
        states = (f"{state['name']} [{', '.join(state['shape'])}]" for state in method["state"])
        yield f"  state: {', '.join(states)}"
    outputs = (f"[{', '.join(item['shape'])}]" if "shape" in item else item["kind"] for item in method["outputs"])
    yield f"  outputs: {', '.join(outputs) or 'none'}"


def _times(count: int) -> str:
    return f" x {count}" if count > 1 else ""


def _few(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
