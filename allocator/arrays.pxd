"""Lists of numbers as C arrays for the length of a call: the memory of an ``array.array`` that nobody else sees.

Typed memoryviews would do the same and bring 60 KB of code to every module that uses one.
"""

from cpython.array cimport array
from libc.stdint cimport int32_t, int64_t


cdef inline int64_t* int64s(array values) noexcept nogil:
    """The numbers of an array of type "q"."""
    return <int64_t*>values.data.as_voidptr


cdef inline int32_t* int32s(array values) noexcept nogil:
    """The numbers of an array of type "i"."""
    return <int32_t*>values.data.as_voidptr
