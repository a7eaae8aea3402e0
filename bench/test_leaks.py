"""Process memory over ten thousand calls with a thousand distinct shapes."""

import gc
import os
from pathlib import Path
from typing import Any

from bench.subjects import Subject
from etarena.demo.models import Size

CALLS, SHAPES, SAMPLES = 10_000, 1000, 10
ALLOWED = 2 << 20
"""Bytes of growth after the first tenth of the calls that count as flat: the C library's own heap breathes."""


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def small_sizes(subject: Subject) -> list[Size]:
    if subject.model.unit == "px":
        return [(32 + index // 40, 32 + index % 40) for index in range(SHAPES)]
    return [(1 + index,) for index in range(SHAPES)]


def test_memory_stays_flat(small_subject: Subject, benchmark: Any) -> None:
    calls = 200 if benchmark.disabled else CALLS
    inputs = [small_subject.model.input(size) for size in small_sizes(small_subject)]
    held = []
    resident = []
    for call in range(calls):
        outputs = small_subject.method.execute([inputs[call * 7919 % SHAPES]])
        held = [*held[-3:], outputs]  # results live a little longer than their call, as an application's do
        if (call + 1) % (calls // SAMPLES) == 0:
            gc.collect()
            resident.append(resident_bytes())
    benchmark.extra_info.update(
        model=small_subject.model.title,
        backend=small_subject.model.backend,
        calls=calls,
        shapes=min(SHAPES, calls),
        resident=resident,
        growth=resident[-1] - resident[0],
    )
    benchmark.pedantic(lambda: None)
    assert resident[-1] - resident[0] < ALLOWED, resident
