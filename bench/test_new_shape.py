"""A shape never seen before: time to plan it, and how good the plan is."""

from statistics import median
from typing import Any

from bench.subjects import Subject
from etarena.allocator import plan_offsets
from etarena.demo.models import DemoModel

SHAPES = 200


def new_shapes(model: DemoModel, count: int) -> list[tuple[int, ...]]:
    """Distinct input shapes, spread evenly between the model's smallest and largest size."""
    low, high = model.sizes[0], model.sizes[-1]
    lead = (1, 3) if model.unit == "px" else (1,)
    steps = (
        [start + (stop - start) * step // count for start, stop in zip(low, high, strict=True)] for step in range(count)
    )
    return list(dict.fromkeys((*lead, *sizes) for sizes in steps))


def test_plan_a_new_shape(subject: Subject, benchmark: Any) -> None:
    """One call of `plan_for` for a new shape; `plan_ns` is the part that a run pays."""
    method, shapes = subject.method, new_shapes(subject.model, 2 if benchmark.disabled else SHAPES)
    plans = [method.plan_for([shape]) for shape in shapes]
    times = sorted(plan.plan_ns for plan in plans)
    buffers = len(plans[0].buffers)
    benchmark.extra_info.update(
        model=subject.model.title,
        backend=subject.model.backend,
        shapes=len(shapes),
        buffers=buffers,
        median_us=median(times) / 1e3,
        p99_us=times[int(len(times) * 0.99)] / 1e3,
        largest_us=times[-1] / 1e3,
        ns_per_buffer=median(times) / buffers if buffers else None,
        worst_ratio=max(plan.ratio for plan in plans),
    )
    later = iter(new_shapes(subject.model, SHAPES + 23))
    benchmark.pedantic(method.plan_for, setup=lambda: (([next(later)],), {}), rounds=100)


def test_planner_alone(subject: Subject, benchmark: Any) -> None:
    """`plan_offsets` on the model's own buffers at the measured size, lists in and lists out."""
    plan = subject.method.plan_for([tuple(subject.model.input(subject.size).shape)])
    problem = (
        [buffer.nbytes for buffer in plan.buffers],
        [buffer.first for buffer in plan.buffers],
        [buffer.last for buffer in plan.buffers],
    )
    result = benchmark(plan_offsets, *problem)
    benchmark.extra_info.update(
        model=subject.model.title,
        backend=subject.model.backend,
        buffers=len(plan.buffers),
        ratio=result.peak / result.lower_bound if result.lower_bound else 1.0,
    )
