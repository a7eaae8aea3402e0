# distutils: language = c++
"""What a delegate tells the memory plan: how much scratch a call needs, and what it wants of its arguments."""

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

    cdef ScratchUser at_call(self, int instruction, bint only):
        """The user that stands for the call at an instruction; None if the plan cannot serve it.

        `only` says that no other instruction calls the delegate.
        """
        if only:
            return self
        self.leave()
        return None

    cdef int ask(self, const vector[Argument]& arguments) except -1:
        """Ask once after the load what is wanted of the arguments; a size that is not known yet is -1.

        All later calls give the same arguments, whose sizes have changed where they are now.
        """
        return 0

    cdef int64_t alignment_wish(self, size_t argument) noexcept:
        """Alignment that is wanted of an argument's address, bytes; 0 for none."""
        return 0

    cdef int64_t size_wish(self, size_t argument) noexcept:
        """Bytes of which the memory of an argument should be a multiple; 0 for none."""
        return 0

    cdef NativeUser native(self) noexcept:
        """A quicker way to `measure` and `place`, valid as long as this object; asked for after `ask`."""
        return NativeUser(NULL, NULL, NULL)

    cdef int64_t measure(self, const vector[Argument]& arguments) except -1:
        """Bytes of scratch that a call with these arguments needs; nothing is executed."""
        return 0

    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1:
        """Use `nbytes` bytes at `address` in calls with these arguments, until told otherwise."""
        return 0

    cdef int leave(self) except -1:
        """Allocate scratch without the plan from now on."""
        return 0
