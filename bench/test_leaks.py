"""Process memory over ten thousand calls with a thousand distinct shapes."""

import gc
import os
from pathlib import Path
from typing import Any

from bench.subjects import Subject

CALLS, SHAPES, SAMPLES = 10_000, 1000, 10
ALLOWED = 2 << 20
"""Bytes of growth after the first tenth of the calls that count as flat: the C library's own heap breathes."""


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat(smallest: Subject, benchmark: Any) -> None:
    calls = 200 if benchmark.disabled else CALLS
    inputs = [smallest.model.input((length,)) for length in range(1, SHAPES + 1)]
    held = []
    resident = []
    for call in range(calls):
        outputs = smallest.method.execute([inputs[call * 7919 % SHAPES]])
        held = [*held[-3:], outputs]  # results live a little longer than their call, as an application's do
        if (call + 1) % (calls // SAMPLES) == 0:
            gc.collect()
            resident.append(resident_bytes())
    benchmark.extra_info.update(
        model=smallest.model.title,
        calls=calls,
        shapes=min(SHAPES, calls),
        resident=resident,
        growth=resident[-1] - resident[0],
    )
    benchmark.pedantic(lambda: None)
    assert resident[-1] - resident[0] < ALLOWED, resident
