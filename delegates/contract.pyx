# distutils: language = c++
"""What a delegate tells the memory plan: how much scratch a call needs, and where it gets it."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

__all__ = ["ScratchUser"]


cdef class ScratchUser:
    """One delegate of a loaded method, as the run-time planner sees it.

    Scratch is a buffer of the plan that lives during the delegate's instruction alone, so it may lie wherever nothing
    else is live then. Its contents are garbage before every call.

    Attributes
    ----------
    backend
        Backend id, for messages.
    """

    cdef int64_t measure(self, const vector[Argument]& arguments) except -1:
        """Bytes of scratch that a call with these arguments needs; nothing is executed."""
        return 0

    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1:
        """Use `nbytes` bytes at `address` in calls with these arguments, until told otherwise."""
        return 0

    cdef int leave(self) except -1:
        """Allocate scratch without the plan from now on."""
        return 0
