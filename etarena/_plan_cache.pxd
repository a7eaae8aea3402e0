"""The plans of a method for the shapes it has met."""

from etarena._binding cimport BoundShape, ShapeBinder


cdef class PlanCache:
    cdef object plans                   # OrderedDict: key bytes -> BoundShape, least recently used first
    cdef readonly size_t nbytes         # that the plans keep
    cdef readonly size_t limit          # of that; the plan used last is kept even if it is larger

    cdef BoundShape find(self, bytes key)
    cdef int add(self, bytes key, BoundShape bound) except -1
    cdef int replace(self, bytes key, BoundShape better) except -1
    cdef int grow(self, size_t nbytes) except -1
    cdef int clear(self) except -1


# What a search in the background has found for a plan so far; it begins with the first call.
cdef BoundShape improved(ShapeBinder binder, BoundShape bound)
