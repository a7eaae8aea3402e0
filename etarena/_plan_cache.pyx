# distutils: language = c++
"""The plans of a method for the shapes it has met, those used last kept."""

from collections import OrderedDict

from etarena._binding cimport BoundShape, ShapeBinder

from .allocator import AnytimePlanner


cdef class PlanCache:
    """Plans by the bytes of what they are for.

    Parameters
    ----------
    limit
        Bytes that plans may keep.
    """

    def __cinit__(self, size_t limit):
        self.plans, self.limit = OrderedDict(), limit

    def __len__(self):
        return len(self.plans)

    cdef BoundShape find(self, bytes key):
        """The plan of a key, None if there is none; it counts as used."""
        found = self.plans.get(key)
        if found is not None:
            self.plans.move_to_end(key)
        return <BoundShape> found

    cdef int add(self, bytes key, BoundShape bound) except -1:
        """Keep a new plan."""
        self.plans[key], bound.is_cached = bound, True
        return self.grow(bound.footprint())

    cdef int replace(self, bytes key, BoundShape better) except -1:
        """Keep another plan of the same size in the place of one, which may have been dropped."""
        if key not in self.plans:
            return self.add(key, better)
        (<BoundShape> self.plans[key]).is_cached = False
        self.plans[key], better.is_cached = better, True
        return 0

    cdef int grow(self, size_t nbytes) except -1:
        """Count bytes that a plan keeps from now on, and drop the plans that were not used for the longest time."""
        cdef BoundShape oldest
        self.nbytes += nbytes
        while self.nbytes > self.limit and len(self.plans) > 1:
            oldest = <BoundShape> self.plans.popitem(last=False)[1]
            oldest.is_cached = False
            self.nbytes -= oldest.footprint()
        return 0

    cdef int clear(self) except -1:
        """Drop all, and end the searches for better ones."""
        for bound in self.plans.values():
            if (<BoundShape> bound).search is not None:
                (<BoundShape> bound).search.close()
        self.plans.clear()
        self.nbytes = 0
        return 0


cdef BoundShape improved(ShapeBinder binder, BoundShape bound):
    """Search for a lower peak in the background, from now on; give what has been found so far as a plan of its own.

    Gives `bound` itself while there is nothing better.
    """
    cdef int i
    cdef BoundShape better
    if binder.scratch.has_steps:
        return bound
    if bound.search is None:
        bound.search = AnytimePlanner(
            [binder.bytes_of(bound, i) for i in range(binder.buffers())], list(binder.first), list(binder.last),
            binder.planner.alignment, order=list(binder.preferred) or None,
        )
        bound.search.start()
    plan = bound.search.plan
    if plan.peak >= bound.peak:
        return bound
    better = BoundShape.__new__(BoundShape)
    better.sizes, better.nbytes, better.offsets = bound.sizes, bound.nbytes, bound.offsets
    better.grown = bound.grown
    for i in range(binder.buffers()):
        better.offsets[i] = plan.offsets[i]
    better.peak, better.lower_bound = plan.peak, bound.lower_bound
    better.output_bytes, better.plan_ns, better.search = bound.output_bytes, bound.plan_ns, bound.search
    better.registers, better.known, better.scratch = bound.registers, bound.known, bound.scratch
    better.ready, better.run_peak, better.run_bound = bound.ready, plan.peak, bound.run_bound
    return better
