"""The method's outputs: memory for them before a run, results from them after it."""

from libc.stdint cimport int32_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._device_memory cimport DeviceMemory
from etarena._runtime cimport NativeMethod, TensorView
from etarena._tensors cimport HeapShare
from etarena.allocator.arena cimport Arena


cdef class OutputWriter:
    cdef object section
    cdef ShapeBinder binder
    cdef Arena arena
    cdef DeviceMemory devices
    cdef BoundShape bound               # of the call in progress
    cdef list given                     # of the call in progress: the caller's tensors or Nones; None without any
    cdef vector[int32_t] owners         # positions of the values whose memory goes to the caller
    cdef vector[int32_t] members        # positions of the other values that use that memory
    cdef bint is_plain                  # there are none, and all sizes are known before a call
    cdef bint is_usual                  # is_plain, and the caller of the call in progress gave no tensors
    cdef vector[HeapShare*] shares      # of the call in progress, one an owner; NULL: the caller gave memory
    cdef vector[void*] places           # of the call in progress: where each owner lies
    cdef list inputs                    # of the call in progress: the caller's input tensors
    cdef list seen                      # the caller's output tensors that were checked

    cdef int check(self, object outputs) except -1
    cdef int point(self, BoundShape bound, NativeMethod native, list inputs) except -1
    cdef int point_one_by_one(self, BoundShape bound, NativeMethod native, list inputs) except -1
    cdef int appear(self, BoundShape bound, NativeMethod native) except -1
    cdef int serve(self, int which, object direct, NativeMethod native) except -1
    cdef void* address_of(self, int owner) noexcept
    cdef void place(self, NativeMethod native, int owner, void* address) noexcept
    cdef list collect(self, NativeMethod native, list copies)
    cdef object tensor_result(self, NativeMethod native, int position, size_t value, list copies)
    cdef int check_result(self, int position, TensorView* view) except -1
    cdef void drop(self) noexcept
