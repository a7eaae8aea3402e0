"""The parts of etarena.h about devices and arguments."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "etarena.h" nogil:
    cdef uint32_t ETARENA_ABI
    ctypedef int32_t etarena_status

    cdef enum:
        ETARENA_OK
        ETARENA_INVALID_ARGUMENT
        ETARENA_NOT_SUPPORTED
        ETARENA_OUT_OF_MEMORY
        ETARENA_FAILED
        ETARENA_DEVICE_LOST
        ETARENA_TIMEOUT

    ctypedef struct etarena_error:
        char message[1024]

    ctypedef struct etarena_device:
        int32_t type
        int32_t index

    cdef enum:
        ETARENA_RESOURCE_HOST
        ETARENA_RESOURCE_VK_BUFFER
        ETARENA_RESOURCE_VK_IMAGE
        ETARENA_RESOURCE_DEVICE_POINTER
        ETARENA_RESOURCE_FD
        ETARENA_RESOURCE_CUSTOM

    ctypedef struct etarena_resource:
        uint32_t struct_size
        uint32_t kind
        uint64_t handle
        uint64_t offset
        uint64_t nbytes
        const void* next

    ctypedef struct etarena_vk_buffer:
        uint32_t struct_size
        uint32_t usage
        uint64_t memory
        uint64_t memory_offset
        uint64_t device

    ctypedef struct etarena_vk_image:
        uint32_t struct_size
        uint32_t format
        uint64_t view
        uint64_t device
        uint32_t layout
        uint32_t usage
        uint32_t width
        uint32_t height
        uint32_t depth
        uint32_t colour_space

    cdef enum:
        ETARENA_HOST_VISIBLE
        ETARENA_HOST_COHERENT
        ETARENA_UNIFIED
        ETARENA_EXPORTS_FD

    ctypedef struct etarena_capabilities:
        uint32_t struct_size
        uint32_t flags
        uint64_t alignment
        uint64_t max_allocation
        uint64_t total_bytes
        uint64_t row_pitch
        uint64_t import_alignment
        uint64_t import_kinds
        uint32_t queue_families

    ctypedef struct etarena_device_allocator:
        uint32_t struct_size
        uint32_t abi
        void* context
        int32_t device_type
        uint32_t device_count
        etarena_status (*capabilities)(
            void* context, int32_t index, etarena_capabilities* out, etarena_error* error
        ) noexcept nogil
        etarena_status (*allocate)(
            void* context, int32_t index, uint64_t nbytes, uint64_t alignment, etarena_resource* out,
            etarena_error* error
        ) noexcept nogil
        void (*deallocate)(void* context, int32_t index, const etarena_resource* resource) noexcept nogil
        etarena_status (*copy_to_device)(
            void* context, int32_t index, const etarena_resource* destination, uint64_t offset, const void* source,
            uint64_t nbytes, etarena_error* error
        ) noexcept nogil
        etarena_status (*copy_to_host)(
            void* context, int32_t index, void* destination, const etarena_resource* source, uint64_t offset,
            uint64_t nbytes, etarena_error* error
        ) noexcept nogil
        etarena_status (*map)(
            void* context, int32_t index, const etarena_resource* resource, void** address, etarena_error* error
        ) noexcept nogil
        etarena_status (*unmap)(
            void* context, int32_t index, const etarena_resource* resource, etarena_error* error
        ) noexcept nogil
        etarena_status (*synchronize)(void* context, int32_t index, etarena_error* error) noexcept nogil

    cdef enum:
        ETARENA_NONE
        ETARENA_TENSOR

    ctypedef struct etarena_argument:
        uint32_t struct_size
        int32_t kind
        int64_t integer
        double number
        int32_t dtype
        int32_t rank
        const int32_t* sizes
        const int32_t* strides
        const uint8_t* dim_order
        void* data
        uint64_t nbytes
        etarena_device device
