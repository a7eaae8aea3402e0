"""Snapshots of a heap for other people's viewers: PyTorch's memory_viz and Perfetto."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .trace import AllocationEvent, HeapSnapshot

__all__ = ["chrome_trace", "memory_viz", "save_chrome_trace", "save_memory_viz"]

_ACTIONS = {"alloc": ("alloc",), "free": ("free_requested", "free_completed")}


def memory_viz(snapshot: HeapSnapshot) -> dict[str, Any]:
    """What ``torch.cuda.memory._snapshot`` would return, with the whole heap as one segment of device 0.

    Parameters
    ----------
    snapshot : HeapSnapshot
        From `Arena.snapshot` or `OffsetHeap.snapshot`.

    Returns
    -------
    dict
        With the keys ``segments`` and ``device_traces``; https://pytorch.org/memory_viz draws its pickle. A cause of an
        event is shown as the name of a stack frame.
    """
    used = [entry for entry in snapshot.ranges if not entry.is_free]
    extent = snapshot.ranges[-1].offset + snapshot.ranges[-1].size if snapshot.ranges else 0
    segment = {
        "device": 0,
        "address": snapshot.start,
        "total_size": extent,
        "allocated_size": sum(entry.size for entry in used),
        "active_size": sum(entry.size for entry in used),
        "requested_size": sum(entry.requested for entry in used),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": True,
        "frames": [],
        "blocks": [
            {
                "address": snapshot.start + entry.offset,
                "size": entry.size,
                "requested_size": max(0, entry.requested),
                "state": "inactive" if entry.is_free else "active_allocated",
                "frames": [],
            }
            for entry in snapshot.ranges
        ],
    }
    events = [step for event in snapshot.events for step in _torch_events(event)]
    return {"segments": [segment], "device_traces": [events], "allocator_settings": {}}


def _torch_events(event: AllocationEvent) -> Iterator[dict[str, Any]]:
    for action in _ACTIONS.get(event.kind, ()):
        yield {
            "action": action,
            "addr": event.offset,
            "size": event.nbytes,
            "stream": 0,
            "time_us": event.time // 1000,
            "frames": [{"filename": "", "line": 0, "name": event.cause}] if event.cause else [],
        }


def save_memory_viz(snapshot: HeapSnapshot, path: Path | str) -> None:
    """Write `memory_viz` as a pickle."""
    Path(path).write_bytes(pickle.dumps(memory_viz(snapshot)))


def chrome_trace(snapshot: HeapSnapshot) -> dict[str, Any]:
    """The kept events as a Chrome trace, which Perfetto opens: a slice per block, and a counter of live bytes.

    Returns
    -------
    dict
        With the keys ``traceEvents`` and ``displayTimeUnit``. Blocks that were made before the first event or are still
        live get slices that begin or end with the trace.
    """
    if not snapshot.events:
        return {"traceEvents": [], "displayTimeUnit": "ns"}
    first, last = snapshot.events[0].time, snapshot.events[-1].time
    began: dict[int, AllocationEvent] = {}
    entries: list[dict[str, Any]] = []
    live = 0
    for event in snapshot.events:
        if event.kind == "alloc":
            began[event.offset] = event
            live += event.nbytes
        elif event.kind == "free":
            start = began.pop(event.offset, AllocationEvent(first, "alloc", event.offset, event.nbytes, ""))
            entries.extend(_slice(start, event.time))
            live -= event.nbytes
        entries.append(
            {"ph": "C", "pid": 1, "ts": event.time / 1000, "name": "live bytes", "args": {"bytes": live}, "cat": "heap"}
        )
    for start in began.values():
        entries.extend(_slice(start, last))
    entries.append({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": snapshot.name}})
    return {"traceEvents": entries, "displayTimeUnit": "ns"}


def _slice(start: AllocationEvent, end: int) -> list[dict[str, Any]]:
    """Asynchronous, because the lives of blocks are not nested."""
    common = {"cat": "block", "id": start.time, "pid": 1, "name": start.cause or f"{start.nbytes} bytes"}
    args = {"offset": start.offset, "nbytes": start.nbytes}
    return [
        {**common, "ph": "b", "ts": start.time / 1000, "args": args},
        {**common, "ph": "e", "ts": end / 1000},
    ]


def save_chrome_trace(snapshot: HeapSnapshot, path: Path | str) -> None:
    """Write `chrome_trace` as JSON."""
    Path(path).write_text(json.dumps(chrome_trace(snapshot)))
