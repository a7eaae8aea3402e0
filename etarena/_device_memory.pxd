"""Memory of a method's values on other devices than the CPU."""

from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._runtime cimport NativeMethod


cdef class DeviceMemory:
    cdef object section
    cdef ShapeBinder binder
    cdef NativeMethod native
    cdef readonly bint is_used           # some value is on a device
    cdef list regions                    # (DeviceRegion, positions of the owners that lie in it)
    cdef vector[int] results             # owners that are outputs
    cdef vector[int] alone               # owners with memory of their own, in methods whose sizes data tells
    cdef dict members                    # owner -> positions of the values that lie in its memory, its own too
    cdef set moved                       # owners whose place the tensors have not been told
    cdef dict held                       # owner -> Resource, of the call in progress or of the last rebind
    cdef dict given                      # owner -> ETensor of the caller to write into, of the call in progress
    cdef list inputs_held                # Resource of each input on a device, of the call in progress
    cdef readonly list copies            # of the run in progress
    cdef bint is_shared                  # a value is on a device, or there are delegates that know of each other
    cdef object shared                   # what they know of the run in progress together
    cdef object error                    # what a copy of the run in progress raised

    cdef int tag(self) except -1

    # Give every activation its memory for these sizes.
    cdef inline int rebind(self, BoundShape bound, vector[char*]& addresses) except -1:
        return self.rebind_all(bound, addresses) if self.is_used else 0

    # Give memory to what has some of its own for each call, as far as its size is known, and check the region.
    cdef inline int begin(self, BoundShape bound, vector[char*]& addresses) except -1:
        return self.begin_shared(bound, addresses) if self.is_shared else 0

    # Let go of what belongs to one call.
    cdef inline int forget(self) except -1:
        return self.forget_shared() if self.is_shared else 0

    cdef int rebind_all(self, BoundShape bound, vector[char*]& addresses) except -1
    cdef int begin_shared(self, BoundShape bound, vector[char*]& addresses) except -1
    cdef int forget_shared(self) except -1
    cdef int appear(self, BoundShape bound, vector[char*]& addresses) except -1
    cdef int put(self, int owner, object resource, vector[char*]& addresses) except -1
    cdef object allocate(self, int owner, BoundShape bound)
    cdef int plan(self, BoundShape bound) except -1
    cdef object result(self, int position, BoundShape bound)
