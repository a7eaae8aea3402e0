"""DLPack's C ABI, as far as etarena speaks it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "dlpack_abi.h" nogil:
    cdef enum:
        DLPACK_CPU
        DLPACK_CUDA
        DLPACK_CUDA_HOST
        DLPACK_ROCM_HOST
        DLPACK_INT
        DLPACK_UINT
        DLPACK_FLOAT
        DLPACK_BFLOAT
        DLPACK_COMPLEX
        DLPACK_BOOL
        DLPACK_FLOAT8_E4M3FN
        DLPACK_FLOAT8_E4M3FNUZ
        DLPACK_FLOAT8_E5M2
        DLPACK_FLOAT8_E5M2FNUZ
        DLPACK_READ_ONLY
        DLPACK_COPIED

    ctypedef struct DLDevice:
        int32_t device_type
        int32_t device_id

    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset

    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void* manager_ctx
        void (*deleter)(DLManagedTensor* self) noexcept nogil

    ctypedef struct DLPackVersion:
        uint32_t major
        uint32_t minor

    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned* self) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor

    ctypedef struct DLPackExchangeAPI:
        DLPackVersion version
        int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out) except -1
        int (*dltensor_from_py_object_no_sync)(void* py_object, DLTensor* out) except -1
