# distutils: language = c++
"""Copies of items between CPU tensors of any layout."""

from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy, memmove

from etarena.device.scalar_types cimport item_bytes
from etarena.device.tensor_core cimport MAX_RANK, TensorCore

__all__ = ["copy_strided", "item_range"]


cdef struct Walk:                        # dimensions from the outermost on, in the order of the destination
    int rank
    size_t item
    int64_t[MAX_RANK] sizes
    int64_t[MAX_RANK] to_steps           # bytes
    int64_t[MAX_RANK] from_steps


cdef void walk(const Walk* plan, int depth, char* out, const char* source) noexcept nogil:
    cdef int64_t i
    if depth == plan.rank:
        memcpy(out, source, plan.item)
        return
    if depth == plan.rank - 1 and plan.to_steps[depth] == <int64_t> plan.item == plan.from_steps[depth]:
        memcpy(out, source, plan.item * plan.sizes[depth])
        return
    for i in range(plan.sizes[depth]):
        walk(plan, depth + 1, out + i * plan.to_steps[depth], source + i * plan.from_steps[depth])


cdef int copy_items(TensorCore out, TensorCore source) except -1:
    """Copy every item. Both have one shape and dtype and lie on the CPU; they overlap only if they are the same."""
    cdef Walk plan
    cdef int i, d
    cdef bint alike = True
    cdef size_t nbytes
    out.require_cpu("a copy")
    source.require_cpu("a copy")
    if out.count() == 0:
        return 0
    for d in range(out.rank):
        alike = alike and out.steps[d] == source.steps[d]
    if alike and out.is_dense():
        nbytes = <size_t> out.span()
        with nogil:
            memmove(out.data, source.data, nbytes)
        return 0
    plan.rank, plan.item = out.rank, item_bytes(out.code)
    for i in range(out.rank):
        d = out.order[i]
        plan.sizes[i] = out.sizes[d]
        plan.to_steps[i] = <int64_t> out.steps[d] * plan.item
        plan.from_steps[i] = <int64_t> source.steps[d] * plan.item
    with nogil:
        walk(&plan, 0, <char*> out.data, <const char*> source.data)
    return 0


def copy_strided(TensorCore out not None, TensorCore source not None):
    """As `copy_items`, from Python; the caller has compared shape and dtype."""
    if out.shape != source.shape or out.code != source.code:
        raise ValueError(f"{source!r} cannot be copied to {out!r}")
    copy_items(out, source)


def item_range(TensorCore tensor not None):
    """Addresses of the first and of one past the last byte of a CPU tensor's items."""
    tensor.require_cpu("the range of addresses")
    return <uintptr_t> tensor.data, <uintptr_t> tensor.data + <uintptr_t> tensor.span()
