from .arena_core cimport ArenaCore


# The fields and functions for callers without the GIL are those of ArenaCore.
cdef class Arena(ArenaCore):
    pass


cdef class Turn:
    cdef Arena arena


cdef class Cause:
    cdef Arena arena
    cdef str name
    cdef object former                      # causes to return to, innermost last
