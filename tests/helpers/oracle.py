"""Eager PyTorch as the oracle: export a module, run it at many shapes on a garbage-filled arena, compare everything."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

import etarena

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

RELATIVE_ERROR = 1e-4


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference over the largest magnitude expected; 0 for empty tensors."""
    if expected.numel() == 0:
        return 0.0
    kind = torch.complex128 if expected.dtype.is_complex else torch.float64
    a, b = actual.detach().to(kind), expected.detach().to(kind)
    same = (a == b) | (a.isnan() & b.isnan())
    difference = torch.where(same, torch.zeros((), dtype=kind), a - b).abs().max()
    finite = b.abs()[torch.isfinite(b)]
    scale = finite.max() if finite.numel() else torch.ones(())
    return float(difference / scale.clamp(min=1e-30))


def assert_same(actual: Any, expected: Any, tolerance: float = RELATIVE_ERROR) -> None:
    """Compare one output with eager's: kind, shape, dtype and values."""
    if not isinstance(expected, torch.Tensor):
        assert actual == expected
        return
    assert isinstance(actual, torch.Tensor)
    assert actual.dtype == expected.dtype
    assert tuple(actual.shape) == tuple(expected.shape)
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        assert torch.equal(actual, expected)
    else:
        assert relative_error(actual, expected) <= tolerance


def assert_plan_is_sound(plan: etarena.MemoryPlan) -> None:
    """Check a plan buffer by buffer: aligned, inside the peak, no two live at once share a byte, bounds as summed."""
    live_sums = [0] * (len(plan.instructions) + 1)
    for buffer in plan.buffers:
        assert buffer.offset >= 0
        assert buffer.offset + buffer.nbytes <= plan.peak
        assert buffer.first < buffer.last <= len(plan.instructions) + 1
        for position in range(buffer.first, buffer.last):
            live_sums[position] += buffer.nbytes
    for i, one in enumerate(plan.buffers):
        for other in plan.buffers[:i]:
            together = one.first < other.last and other.first < one.last
            apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
            assert not together or apart or not one.nbytes or not other.nbytes, (one, other)
    assert plan.lower_bound == max(live_sums)
    assert plan.peak >= plan.lower_bound


def flat(outputs: Any) -> list[Any]:
    """Eager's outputs as a flat list."""
    return torch.utils._pytree.tree_leaves(outputs)


def clone_inputs(inputs: Sequence[Any]) -> list[Any]:
    """Copies of the tensors, so that a model may write into them."""
    return [item.clone() if isinstance(item, torch.Tensor) else copy.copy(item) for item in inputs]


def load_exported(model: torch.nn.Module, example: tuple[Any, ...], dynamic_shapes: Any = None, **options: Any) -> Any:
    """Export a module and load it into an arena of its own."""
    exported = etarena.export(model, example, dynamic_shapes=dynamic_shapes, **options)
    return etarena.load(exported.buffer, etarena.Arena(1 << 36))


def run_and_compare(
    model: torch.nn.Module,
    example: tuple[Any, ...],
    dynamic_shapes: Any,
    calls: Iterable[tuple[Any, ...]],
    *,
    tolerance: float = RELATIVE_ERROR,
    before: Callable[[Any], None] | None = None,
    **options: Any,
) -> Any:
    """Run one loaded method on all calls in order and compare each with eager, mutated inputs included."""
    program = load_exported(model, example, dynamic_shapes, **options)
    method = program.method()
    for inputs in calls:
        eager_inputs, own_inputs = clone_inputs(inputs), clone_inputs(inputs)
        expected = flat(model(*eager_inputs))
        program.arena.scribble()
        if before:
            before(method)
        actual = method.execute(own_inputs)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, tolerance)
        for one, other in zip(own_inputs, eager_inputs, strict=True):
            assert_same(one, other, tolerance)
        shapes = [
            tuple(item.shape) if isinstance(item, torch.Tensor) else item
            for item, entry in zip(own_inputs, method.section.inputs, strict=True)
            if isinstance(item, torch.Tensor) or entry.symbol >= 0
        ]
        assert_plan_is_sound(method.plan_for(shapes))
    return program
