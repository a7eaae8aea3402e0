"""Declarations of etarena/native/*.h. Nothing here but signatures; only _runtime.pyx links against ExecuTorch."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena._runtime cimport Probe, Stop, TensorView, TransferFn
from etarena.device.abi cimport etarena_device_allocator
from etarena.delegates.table cimport Instance, Registration

cdef extern from "runtime_guard.h" namespace "etarena" nogil:
    cdef cppclass Failure:
        uint32_t code
        cbool aborted
        string log
        string backend
        string step
        string reason
    void start_runtime "executorch::runtime::runtime_init"() noexcept

cdef extern from "kernel_registry.h" namespace "etarena" nogil:
    vector[string] c_registered_kernels "etarena::registered_kernels"() except +

cdef extern from "plan_backend.h" namespace "etarena" nogil:
    cdef cppclass PlanPayload:
        const void* data
        size_t size
    cbool register_plan_backend() noexcept

cdef extern from "foreign_backend.h" namespace "etarena" nogil:
    cdef enum Registered "etarena::Registered":
        REGISTERED "etarena::Registered::Done"
        TAKEN "etarena::Registered::Taken"
        STOCK "etarena::Registered::Stock"
        FULL "etarena::Registered::Full"
    Registered register_foreign(shared_ptr[const Registration] registration) except +
    cbool unregister_foreign(const string& name) except +
    vector[string] c_registered_backends "etarena::registered_backends"() except +

cdef extern from "kernels.h" namespace "etarena" nogil:
    cbool register_kernels() noexcept

cdef extern from "transfers.h" namespace "etarena" nogil:
    cdef cppclass Transfers:
        void* owner
        TransferFn copy

cdef extern from "told_numbers.h" namespace "etarena" nogil:
    cdef enum StopKind "etarena::StopKind":
        STOP_FAILED "etarena::StopKind::Failed"
        STOP_DONE "etarena::StopKind::Done"
        STOP_TOLD "etarena::StopKind::Told"
        STOP_UNEVEN "etarena::StopKind::Uneven"

cdef extern from "method_handle.h" namespace "etarena" nogil:
    cdef cppclass ByteSpan "executorch::runtime::Span<uint8_t>":
        ByteSpan(uint8_t*, size_t)

    cdef cppclass DeviceTag "executorch::runtime::etensor::Device":
        DeviceTag(DeviceTypeTag, int8_t)

    cdef enum DeviceTypeTag "executorch::runtime::etensor::DeviceType":
        pass

    cdef cppclass MethodDescription:
        vector[int64_t] planned_bytes
        vector[int32_t] planned_types
        vector[int32_t] planned_indices
        vector[string] backends
        size_t instructions

    cdef cppclass ProgramHandle:
        ProgramHandle(const void* data, size_t size) except +
        cbool open(Failure* failure) noexcept
        size_t methods() noexcept
        cbool method_name(size_t position, string* name, Failure* failure) noexcept
        cbool describe(const char* name, MethodDescription* out, Failure* failure) noexcept

    cdef cppclass MethodHandle:
        MethodHandle(vector[ByteSpan] buffers, vector[DeviceTag] devices) except +
        cbool load(ProgramHandle& program, const char* name, PlanPayload* payload, Failure* failure) noexcept
        vector[shared_ptr[Instance]] instances() noexcept
        size_t values() noexcept
        size_t inputs() noexcept
        size_t outputs() noexcept
        size_t input_value(size_t position) noexcept
        size_t output_value(size_t position) noexcept
        uint32_t tag(size_t value) noexcept
        void attach(const int32_t* indices, size_t count) except +
        void rebind(const int32_t* sizes, char** addresses) noexcept
        void set_address(size_t slot, void* address) noexcept
        void set_device(size_t slot, int type, int index) noexcept
        int slot_of(const void* impl) noexcept
        void use_transfers(const Transfers& transfers) noexcept
        void mark_input_set(size_t position) noexcept
        void set_int(size_t value, int64_t number) noexcept
        void rebind_one(size_t position, const int32_t* sizes, void* address) noexcept
        cbool execute(Failure* failure) noexcept
        void learn_probes(vector[Probe] probes, size_t instructions, size_t symbols) except +
        const int64_t* told_numbers() noexcept
        const uint8_t* told_known() noexcept
        void begin_stages() noexcept
        StopKind run_to_stop(Stop* stop, Failure* failure) noexcept
        cbool set_input_tensor(
            size_t position, int dtype, int rank, int32_t* sizes, uint8_t* order, int32_t* strides, void* data,
            Failure* failure
        ) noexcept
        cbool set_input_int(size_t position, int64_t number, Failure* failure) noexcept
        cbool set_input_double(size_t position, double number, Failure* failure) noexcept
        cbool set_input_bool(size_t position, cbool number, Failure* failure) noexcept
        cbool set_output_address(size_t position, void* address, size_t nbytes, Failure* failure) noexcept
        cbool view(size_t value, TensorView* out) noexcept
        int64_t int_value(size_t value) noexcept
        double double_value(size_t value) noexcept
        cbool bool_value(size_t value) noexcept


cdef extern from "device_bridge.h" namespace "etarena" nogil:
    cbool bridge_allocator(int type, const etarena_device_allocator* table) except +
    void* bridged_allocate(int type, int index, size_t nbytes, size_t alignment) except +
    void bridged_free(int type, int index, void* address) except +
    cbool bridged_copy(int type, int index, void* to, const void* source, size_t nbytes, cbool to_device) except +
