"""ExecuTorch programs and methods as Python objects that own them.

No header of ExecuTorch is named here: modules that cimport this one neither compile nor link against it.
"""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector


cdef extern from "tensor_view.h" namespace "etarena" nogil:
    cdef struct TensorView:
        void* data
        const int32_t* sizes
        const int32_t* strides
        const uint8_t* dim_order
        int32_t rank
        int32_t dtype
        int32_t dynamism
        size_t nbytes
        int32_t device_type
        int32_t device_index


# Copies between two tensors; see transfers.h.
ctypedef int (*TransferFn)(void* owner, const void* source, void* source_data, const void* target, void* target_data,
                           size_t nbytes) noexcept nogil


cdef extern from "told_numbers.h" namespace "etarena" nogil:
    cdef struct Probe:
        int32_t teller
        int32_t symbol
        int32_t instruction
        int32_t slot
        int32_t index
        int32_t dim
        int64_t scale
        int64_t offset

    cdef struct Stop:
        int32_t position
        int32_t probe
        int64_t number


cdef class NativeProgram:
    cdef Py_buffer source          # the file's bytes: constants and delegate data are read from there for ever
    cdef bint source_held
    cdef void* c_obj               # etarena::ProgramHandle*


cdef class NativeMethod:
    cdef readonly NativeProgram program   # its bytes and loader must outlive the method
    cdef readonly str name
    cdef readonly bytes payload           # the plan section as found in the file; None without one
    cdef readonly list delegates          # ForeignUser of each delegate behind a function table, in order of index
    cdef list blocks                      # memory planned ahead of time, which the method's tensors point into
    cdef void* c_obj                      # etarena::MethodHandle*
    cdef readonly bint poisoned           # a hard failure went through the runtime: never run or destroy it again

    cdef void set_device(self, size_t slot, int type, int index) noexcept
    cdef void use_transfers(self, void* owner, TransferFn copy) noexcept
    cdef int slot_of(self, const void* impl) noexcept
    cdef int attach(self, const int32_t* indices, const int32_t* ranks, const int32_t* dtypes, int count) except -1
    cdef void rebind(self, const int32_t* sizes, char** addresses) noexcept
    cdef void set_address(self, int slot, void* address) noexcept
    cdef void set_int(self, size_t value, int64_t number) noexcept
    cdef int view(self, size_t value, TensorView* out) except -1
    cdef int run(self, object labels) except -1
    cdef int learn_probes(self, const vector[Probe]& probes, size_t instructions, size_t symbols) except -1
    cdef void rebind_one(self, size_t slot, const int32_t* sizes, void* address) noexcept
    cdef void begin_stages(self) noexcept
    cdef int run_to_stop(self, Stop* stop, object labels) except -1
    cdef const int64_t* told_numbers(self) noexcept
    cdef const uint8_t* told_known(self) noexcept
    cdef object scalar(self, size_t value)
