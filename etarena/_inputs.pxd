"""The caller's inputs, checked and read in place."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena.allocator.arena cimport Arena
from etarena.device.dlpack cimport DLTensor
from etarena.device.etensor cimport ETensor


cdef class InputReader:
    cdef object section
    cdef ShapeBinder binder
    cdef bint read_past_end             # delegates may read some bytes behind an input
    cdef vector[int] devices            # type of the device of each input
    cdef bint mutates                   # the method writes into some inputs; else there is nothing to write back
    cdef bint has_unreadable            # some inputs of the call in progress must be copied
    cdef bint has_devices               # some inputs are on other devices than the CPU; else `on_device` stays empty
    cdef int position                   # of the input being read
    cdef vector[DLTensor] views         # one an input, of the call in progress
    cdef vector[int64_t] key            # sizes of all inputs, one after another, and int symbols
    cdef list held                      # tensors whose memory the views point into
    cdef list pins                      # keep ETensors among them from being closed meanwhile
    cdef list unreadable                # (position, tensor, cause) of inputs that must be copied
    cdef list write_backs               # (caller's tensor, dense copy, name) of mutated inputs that were copied
    cdef list on_device                 # Resource of each input on another device than the CPU
    cdef list copies                    # ledger entries

    cdef int read(self, object inputs) except -1
    cdef int read_one(self, object entry, object value) except -1
    cdef bint read_etensor(self, ETensor value) except -1
    cdef int read_on_device(self, object entry, object value) except -1
    cdef int read_number(self, object entry, object value) except -1
    cdef object copy_cause(self, object entry, object tensor)

    # Copy what cannot be read in place. Only now, when the plan has shown that the shapes are legal.
    cdef inline int copy_unreadable(self, BoundShape bound, Arena arena) except -1:
        return self.copy_all(bound, arena) if self.has_unreadable else 0

    # Ask for the copies of `write_back`, while the call can still fail as a whole.
    cdef inline int announce_write_back(self) except -1:
        return self.announce_all() if self.mutates else 0

    # Bring what the method wrote into copies back into the caller's tensors, and tell torch of all it wrote.
    cdef inline int write_back(self) except -1:
        return self.write_back_all() if self.mutates else 0

    cdef int copy_all(self, BoundShape bound, Arena arena) except -1
    cdef int replace_by_dense(
        self, int position, object tensor, str cause, BoundShape bound, Arena arena
    ) except -1
    cdef int refuse_shared_memory(self) except -1
    cdef int count_writes(self) except -1
    cdef int announce_all(self) except -1
    cdef int write_back_all(self) except -1
    cdef void forget(self) noexcept
    cdef void* address(self, int position) noexcept
