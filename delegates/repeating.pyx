# distutils: language = c++
"""Delegates that can do a call once more without being given Python objects."""

from libc.stdint cimport uint32_t, uint64_t

from etarena.device.abi cimport etarena_argument

__all__ = ["Repeating"]


cdef class Repeating:
    """A base beside `Delegate` for etarena's own classes: each call is offered to `repeat` first."""

    cdef bint repeat(
        self, const etarena_argument* arguments, uint32_t count, void* scratch, uint64_t nbytes
    ) except -1:
        return False
