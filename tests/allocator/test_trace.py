import json
import pickle

import pytest

from etarena.allocator import AllocationEvent, Arena, HeapRange, HeapSnapshot, OffsetHeap
from etarena.allocator.replay import Step, from_events, from_lifetimes, load, replay, save
from etarena.allocator.trace_export import chrome_trace, memory_viz, save_chrome_trace, save_memory_viz

MIB = 1 << 20


def test_events_name_their_causes():
    with Arena(16 * MIB, activation_reserve=8 * MIB, trace=100, poison=False) as arena:
        with arena.cause("decode"):
            block = arena.alloc(100)
            with arena.cause("cache"):
                inner = arena.alloc(200)
            inner.resize(300)
        place = block.address - arena.base
        block.free()
        arena.trim()
        events = arena.events()
    assert [(event.kind, event.nbytes, event.cause) for event in events] == [
        ("alloc", 100, "decode"),
        ("alloc", 200, "cache"),
        ("resize", 300, "decode"),
        ("free", 100, ""),
        ("trim", 0, ""),
    ]
    assert events[0].offset == events[3].offset == place
    assert sorted(event.time for event in events) == [event.time for event in events]


def test_only_the_last_events_are_kept():
    heap = OffsetHeap(MIB, trace=5)
    for nbytes in range(10):
        heap.free(heap.alloc(nbytes))
    assert [(event.kind, event.nbytes) for event in heap.events()] == [
        ("free", 7),
        ("alloc", 8),
        ("free", 8),
        ("alloc", 9),
        ("free", 9),
    ]


def test_nothing_is_kept_by_default():
    heap = OffsetHeap(MIB)
    heap.alloc(1)
    assert heap.events() == []


@pytest.mark.parametrize("trace", [-1, 1 << 40])
def test_impossible_numbers_of_events_are_refused(trace):
    with pytest.raises(ValueError, match=f"trace={trace} is no number of events"):
        OffsetHeap(MIB, trace=trace)


@pytest.fixture
def snapshot():
    events = (
        AllocationEvent(1000, "alloc", 0, 100, "a"),
        AllocationEvent(2000, "alloc", 128, 50, ""),
        AllocationEvent(3500, "free", 0, 100, ""),
        AllocationEvent(4000, "free", 512, 30, ""),
    )
    return HeapSnapshot("device", 1 << 20, (HeapRange(0, 128, -1), HeapRange(128, 64, 50)), events)


def test_memory_viz(snapshot, tmp_path):
    save_memory_viz(snapshot, tmp_path / "snapshot.pickle")
    data = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert data == memory_viz(snapshot)
    segment = data["segments"][0]
    assert (segment["total_size"], segment["allocated_size"], segment["requested_size"]) == (192, 64, 50)
    assert [(block["address"] - (1 << 20), block["size"], block["state"]) for block in segment["blocks"]] == [
        (0, 128, "inactive"),
        (128, 64, "active_allocated"),
    ]
    assert [event["action"] for event in data["device_traces"][0]] == [
        "alloc",
        "alloc",
        *["free_requested", "free_completed"] * 2,
    ]
    assert data["device_traces"][0][0]["frames"][0]["name"] == "a"


def test_chrome_trace(snapshot, tmp_path):
    save_chrome_trace(snapshot, tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    assert data == chrome_trace(snapshot)
    entries = data["traceEvents"]
    assert [entry["args"]["bytes"] for entry in entries if entry["ph"] == "C"] == [100, 150, 50, 20]
    begins = {entry["name"]: entry["ts"] for entry in entries if entry["ph"] == "b"}
    ends = {entry["name"]: entry["ts"] for entry in entries if entry["ph"] == "e"}
    assert begins == {"a": 1.0, "50 bytes": 2.0, "30 bytes": 1.0}  # the last one was made before the first event
    assert ends == {"a": 3.5, "50 bytes": 4.0, "30 bytes": 4.0}  # the second one is still live


def test_an_empty_heap_can_be_exported():
    snapshot = OffsetHeap(MIB).snapshot()
    assert memory_viz(snapshot)["segments"][0]["total_size"] == 0
    assert chrome_trace(snapshot)["traceEvents"] == []


def test_what_is_recorded_can_be_replayed(tmp_path):
    heap = OffsetHeap(MIB, trace=100)
    old = heap.alloc(1)
    heap = OffsetHeap(MIB, trace=100)
    first, second = heap.alloc(100), heap.alloc(1000)
    heap.free(first)
    heap.alloc(10)
    heap.free(second)
    steps = from_events([AllocationEvent(0, "free", old + 4096, 1, ""), *heap.events()])
    assert steps == [Step(0, 100), Step(1, 1000), Step(0, None), Step(0, 10), Step(1, None)]
    save(steps, tmp_path / "trace")
    assert load(tmp_path / "trace") == steps
    for allocator in ("etarena", "reference"):
        result = replay(steps, allocator)
        assert (result.steps, result.peak_live, result.extent) == (5, 1100, 128 + 1000)
        assert result.footprint == 1128 / 1100
        assert result.nanoseconds_per_pair > 0


def test_buffers_that_end_make_room_for_those_that_begin():
    steps = from_lifetimes([64, 64, 5], [0, 1, 3], [1, 2, 3])
    assert steps == [Step(0, 64), Step(0, None), Step(1, 64), Step(1, None)]
    assert replay(steps).extent == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no allocation trace"),
        ("something\na 0 1", "no allocation trace"),
        ("etarena-trace 1\na 0 1\na 0 1", "line 3.*in use"),
        ("etarena-trace 1\nf 0", "line 2.*not in use"),
        ("etarena-trace 1\na 0 -1", "line 2.*negative"),
        ("etarena-trace 1\na 0", "line 2.*expected"),
        ("etarena-trace 1\na x 1", "line 2.*invalid literal"),
    ],
)
def test_damaged_traces_are_refused(tmp_path, text, said):
    (tmp_path / "trace").write_text(text)
    with pytest.raises(ValueError, match=said):
        load(tmp_path / "trace")


def test_unknown_allocators_are_refused():
    with pytest.raises(ValueError, match="no allocator 'other'; there are etarena, reference"):
        replay([], "other")
