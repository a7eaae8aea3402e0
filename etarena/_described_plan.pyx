# distutils: language = c++
"""A plan of certain shapes made readable: every buffer with its place and lifetime."""

from etarena._binding cimport UNKNOWN, BoundShape, ShapeBinder

from .memory_plan import MemoryPlan, PlannedBuffer

UINT8 = 0   # ExecuTorch's dtype code


def described_plan(
    str name, shapes, section, labels, ShapeBinder binder not None, BoundShape bound not None, state_bytes
):
    """Return the `MemoryPlan` of a method for `shapes`; `bound` is what `binder` made of them."""
    cdef int i, d, position
    buffers = []
    for i in range(<int> binder.planned.size()):
        position = binder.planned[i]
        if bound.ready[position] == UNKNOWN:
            continue
        value = section.values[position]
        start = binder.start[position]
        shape = tuple(bound.sizes[start + d] for d in range(binder.rank[position]))
        buffers.append(
            PlannedBuffer(
                value.name, bound.offsets[i], bound.nbytes[position], value.first, value.last, value.dtype, shape,
                value.definition,
            )
        )
    for i in range(<int> binder.planned.size(), binder.buffers()):
        nbytes = binder.bytes_of(bound, i)
        label = labels[binder.first[i]]
        buffers.append(
            PlannedBuffer(
                f"scratch of {label} at {binder.first[i]}", bound.offsets[i], nbytes, binder.first[i],
                binder.last[i], UINT8, (nbytes,), label, "scratch",
                binder.scratch.users[i - <int> binder.planned.size()].backend,
            )
        )
    return MemoryPlan(
        name, shapes, bound.run_peak, bound.run_bound, bound.output_bytes, state_bytes, bound.plan_ns,
        tuple(buffers), labels, binder.scratch.staged(),
    )
