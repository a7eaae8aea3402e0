"""Declarations of etarena.h about delegates, and of delegates/native/*.h; nothing here but signatures."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena.device.abi cimport etarena_argument, etarena_error

cdef extern from "etarena.h" nogil:
    enum:
        ETARENA_INT
        ETARENA_DOUBLE
        ETARENA_BOOL

    struct etarena_requirement:
        uint32_t struct_size
        uint32_t access
        uint64_t alignment
        uint64_t size_multiple
        uint64_t row_pitch
        uint64_t devices

    struct etarena_spec:
        const char* key
        const void* value
        uint64_t nbytes

    struct etarena_delegate:
        uint32_t struct_size
        uint32_t abi
        void* context
        int32_t (*init)(void*, const void*, uint64_t, const etarena_spec*, uint32_t, void**, etarena_error*) noexcept
        int32_t (*execute)(
            void*, void*, const etarena_argument*, uint32_t, void*, uint64_t, etarena_error*
        ) noexcept
        void (*close)(void*, void*) noexcept
        int32_t (*scratch_bytes)(
            void*, void*, const etarena_argument*, uint32_t, uint64_t*, etarena_error*
        ) noexcept
        int32_t (*requirements)(
            void*, void*, const etarena_argument*, uint32_t, etarena_requirement*, etarena_error*
        ) noexcept
        int32_t (*output_sizes)(void*, void*, const etarena_argument*, uint32_t, int32_t*, etarena_error*) noexcept


cdef extern from "instance.h" namespace "etarena" nogil:
    cppclass Registration:
        Registration() except +
        string name
        etarena_delegate table
        void* owner
        void (*release)(void*) noexcept
        void (*report)() noexcept

    cppclass Place:
        Place()
        int32_t instruction
        char* address
        uint64_t nbytes
        uint64_t room
        vector[uint8_t] joined
        cbool has_numbers
        cbool watched
        cbool guarded

    cppclass CopyMade:
        int32_t instruction
        uint32_t argument
        uint64_t nbytes
        int32_t why

    cppclass Instance:
        shared_ptr[const Registration] registration
        cbool open
        cbool has_wishes
        cbool ran_outside
        vector[etarena_requirement] wishes
        vector[CopyMade] copies
        void put(Place place) except +

    cbool ask_wishes(Instance&, const etarena_argument*, uint32_t, string*) except +
    cbool ask_bytes(const Instance&, const etarena_argument*, uint32_t, uint64_t*, string*) except +
    cbool ask_sizes(const Instance&, const etarena_argument*, uint32_t, vector[int32_t]*, string*) except +
    uint64_t extra_room(const Instance&, const etarena_argument*, uint32_t, const uint8_t*, cbool)
    uint64_t element_bytes(const etarena_argument&)
    uint64_t moved_bytes(const etarena_requirement&, uint64_t)
    int c_misfit "(int)etarena::misfit"(const etarena_requirement&, const etarena_argument&, cbool)
    uint64_t PAGE_BYTES "etarena::kPage"


cdef class Table:
    """A function table and what keeps it alive, ready to be registered."""

    cdef shared_ptr[Registration] registration
    cdef readonly str name
    cdef void hold(self, object owner) noexcept
