"""The states that a method uses: their memory before a run, their new values after it."""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._inputs cimport InputReader
from etarena._runtime cimport NativeMethod


cdef struct WriteBack:
    int32_t target                # position among the values
    int32_t source                # position among the values
    int32_t input                 # of an input: its position among the inputs; -1 for a state
    bint staged                   # the source is memory that a write-back may change


cdef class StateKeeper:
    cdef object section
    cdef ShapeBinder binder
    cdef list memory              # of each state of the section: its GrowingBlock, or None when its size is fixed
    cdef vector[WriteBack] write_backs
    cdef bint has_growing         # some states are caches; else only `commit` does anything
    cdef bint has_new_values      # states or inputs get new values, or caches grow; else `commit` does nothing
    cdef int64_t written          # bytes of states and inputs that the last commit wrote, or the run before it appended
    cdef vector[char*] placed     # of each growing state: where it lies for the native method; NULL after a rebind

    # Bytes of the caches now.
    cdef inline int64_t nbytes(self) except -1:
        return self.count_bytes() if self.has_growing else 0

    # Write the lengths of the growing states behind the sizes of the inputs.
    cdef inline int read_lengths(self, int64_t* key) except -1:
        return self.read_rows(key) if self.has_growing else 0

    # Room for what this run appends.
    cdef inline int reserve(self, BoundShape bound) except -1:
        return self.reserve_rows(bound) if self.has_growing else 0

    # Point the values of every cache that is not where it was at its memory.
    cdef inline int place(self, NativeMethod native, vector[char*]& addresses) except -1:
        return self.place_moved(native, addresses) if self.has_growing else 0

    # All new values, or none if one of them is not what was planned.
    cdef inline int commit(
        self, BoundShape bound, NativeMethod native, InputReader reader, char** addresses
    ) except -1:
        return self.commit_new_values(bound, native, reader, addresses) if self.has_new_values else 0

    cdef int64_t count_bytes(self) except -1
    cdef int read_rows(self, int64_t* key) except -1
    cdef int reserve_rows(self, BoundShape bound) except -1
    cdef int place_moved(self, NativeMethod native, vector[char*]& addresses) except -1
    cdef int commit_new_values(
        self, BoundShape bound, NativeMethod native, InputReader reader, char** addresses
    ) except -1
    cdef int check(self, BoundShape bound, NativeMethod native, vector[char*]* found) except -1
    cdef int check_growth(self, BoundShape bound, NativeMethod native) except -1
