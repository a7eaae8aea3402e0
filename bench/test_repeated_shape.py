"""A shape seen before: etarena against the stock runtime on the same model, exported dynamic and bounded, and static.

All three run in one process on the same input, call by call in turn. The ratio is the median over the rounds.
"""

from statistics import median
from typing import Any

from bench.side_by_side import in_turn, median_ratio, rounds_within
from bench.subjects import Subject
from etarena.demo.runs import relative_error

SECONDS = 12.0


def test_repeated_shape(subject: Subject, benchmark: Any) -> None:
    inputs = [subject.model.input(subject.size)]
    ways = {
        "etarena": lambda: subject.method.execute(inputs),
        "stock dynamic": lambda: subject.stock_dynamic.execute(inputs),
        "stock static": lambda: subject.stock_static.execute(inputs),
    }
    outputs = {name: call()[0] for name, call in ways.items()}
    assert relative_error(outputs["etarena"], outputs["stock dynamic"]) < 1e-5
    assert relative_error(outputs["etarena"], outputs["stock static"]) < 1e-4
    rounds = 1 if benchmark.disabled else rounds_within(lambda: [call() for call in ways.values()], SECONDS)
    samples = in_turn(ways, rounds)
    benchmark.extra_info.update(
        model=subject.model.title,
        backend=subject.model.backend,
        size=list(subject.size),
        rounds=rounds,
        median_us={name: median(times) / 1e3 for name, times in samples.items()},
        against_dynamic=median_ratio(samples, "etarena", "stock dynamic"),
        against_static=median_ratio(samples, "etarena", "stock static"),
    )
    benchmark.pedantic(ways["etarena"], rounds=min(rounds, 200), warmup_rounds=1)
