# distutils: language = c++
"""Compute pipelines and their cache."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceCore, DeviceObject

from ...allocator.errors import DeviceError, InputError
from .spirv import read_interface

__all__ = ["Pipeline", "PipelineCache", "constant_bits"]

cdef Py_ssize_t CACHE_HEADER = 32      # bytes of VkPipelineCacheHeaderVersionOne


def constant_bits(constants) -> tuple:
    """Specialization constants as pairs of id and 32 bits, in the order of their ids.

    Raises
    ------
    InputError
        An id or a value has not 32 bits.
    """
    cdef float real
    cdef uint32_t bits
    out = []
    for number, value in constants.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 32:
            raise InputError(f"specialization constants have ids of 32 bits, not {number!r}")
        if isinstance(value, float):
            real = value
            memcpy(&bits, &real, 4)
        elif isinstance(value, int) and -(1 << 31) <= value < 1 << 32:
            bits = value & 0xFFFFFFFF
        else:
            raise InputError(f"specialization constant {number} is {value!r}: a number of 32 bits was expected")
        out.append((number, bits))
    return tuple(sorted(out))


@cython.final
cdef class PipelineCache(DeviceObject):
    """A VkPipelineCache: what the driver keeps of pipelines it compiled.

    Parameters
    ----------
    core : DeviceCore
        Whose.
    data : bytes
        What another cache gave for the same device and driver; empty: begin with nothing.

    Raises
    ------
    DeviceError
        The data are of another device or driver, or none of a pipeline cache.
    """

    def __cinit__(self, DeviceCore core not None, bytes data not None=b""):
        cdef string content = data
        self.start(core)
        if data:
            require_cache_header(core, data)
        with nogil:
            self.c_obj.reset(new vk.PipelineCache(core.c_obj, content))

    @property
    def handle(self) -> int:
        """The VkPipelineCache."""
        self.require_open()
        return self.c_obj.get().number()

    def data(self) -> bytes:
        """Everything in it, to begin another with."""
        cdef string found
        in_use = self.lease("a reader")
        with nogil:
            found = self.c_obj.get().data()
        del in_use
        return found

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()


@cython.final
cdef class Pipeline(DeviceObject):
    """A compute shader, compiled for a device.

    Parameters
    ----------
    core : DeviceCore
        Whose.
    code : bytes
        SPIR-V with the entry point ``main``. What it declares is checked; what it does, drivers trust.
    bindings : str
        One letter for each binding of set 0, from binding 0 on: ``"b"`` a storage buffer, ``"i"`` a storage image,
        ``"t"`` an image with a sampler, linear and clamped to the edge.
    push_bytes : int
        Size of the push constants; a multiple of 4.
    constants : Mapping of int to int, float or bool
        Specialization constants of 32 bits by their ids.
    cache : PipelineCache, optional
        Where the driver looks first, and keeps what it compiled.

    Raises
    ------
    InputError
        No SPIR-V, or a shader that declares other bindings or more push constants; workgroups, push constants or
        specialization constants that are not possible.
    DeviceError
        More bindings than the device's limits allow.
    """

    def __cinit__(
        self, DeviceCore core not None, bytes code not None, *, str bindings not None, push_bytes,
        constants=None, PipelineCache cache=None,
    ):
        cdef vector[uint32_t] words
        cdef vector[vk.Constant] values
        cdef string letters
        cdef uint64_t cache_number = 0
        self.start(core)
        constants = dict(constants or {})
        values = constant_values(constants)
        require_layout(core, bindings, push_bytes)
        letters = self.letters = bindings.encode()
        self.push_bytes = push_bytes
        interface = read_interface(code)
        interface.require_fit(bindings, push_bytes, constants)
        self.workgroup = interface.workgroup_size(constants)
        require_workgroup(core, self.workgroup)
        self.images = {
            number: (binding.volume, binding.format)
            for number, binding in interface.bindings.items() if binding.letter != "b"
        }
        words = spirv_words(code)
        in_use = None
        if cache is not None:
            if cache.core is not core:
                raise DeviceError("a PipelineCache of another Vulkan device was given")
            in_use = cache.lease("a pipeline that is being compiled")
            cache_number = cache.c_obj.get().number()
        with nogil:
            self.c_obj.reset(
                new vk.ComputePipeline(core.c_obj, words, letters, self.push_bytes, values, cache_number)
            )
        del in_use
        self.bindings = bindings

    @property
    def handle(self) -> int:
        """The VkPipeline."""
        self.require_open()
        return self.c_obj.get().number()

    cdef int require_image_kind(self, Py_ssize_t index, bint volume, uint32_t format) except -1:
        """Refuse an image of other dimensions or of another format than the shader declares."""
        wanted_volume, wanted_format = self.images.get(index, (volume, format))
        if wanted_volume != volume:
            raise InputError(f"binding {index}: the shader works on images of {3 if wanted_volume else 2} dimensions")
        if wanted_format not in (0, format):
            raise InputError(f"binding {index}: the image has format {format}, the shader declares {wanted_format}")
        return 0

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()


cdef int require_cache_header(DeviceCore core, bytes data) except -1:
    """Refuse data that drivers may not be given: Vulkan forbids headers of another kind or device."""
    cdef uint32_t[4] header
    cdef const char* begin = data
    cdef vk.Properties mine = core.c_obj.get().properties
    if len(data) < CACHE_HEADER:
        raise DeviceError(f"{len(data)} bytes are no pipeline cache: it has a header of {CACHE_HEADER}")
    memcpy(header, begin, sizeof(header))
    if header[0] < CACHE_HEADER or header[0] > <uint64_t>len(data) or header[1] != 1:
        raise DeviceError("the data given are not those of a pipeline cache")
    if header[2] != mine.vendorID or header[3] != mine.deviceID or memcmp(begin + 16, mine.pipelineCacheUUID, 16):
        raise DeviceError("the pipeline cache is of another device or driver: begin with an empty one")
    return 0


cdef vector[uint32_t] spirv_words(bytes code) except *:
    cdef vector[uint32_t] words
    cdef const char* begin = code
    words.resize(len(code) // 4)
    memcpy(words.data(), begin, words.size() * 4)
    return words


cdef vector[vk.Constant] constant_values(constants) except *:
    cdef vector[vk.Constant] out
    cdef vk.Constant constant
    for constant.id, constant.value in constant_bits(constants):
        out.push_back(constant)
    return out


cdef int require_workgroup(DeviceCore core, tuple size) except -1:
    """Refuse workgroups that the device does not have."""
    cdef vk.Limits limits = core.c_obj.get().limits()
    total = 1
    for axis in range(3):
        total *= size[axis]
        if not 0 < size[axis] <= limits.maxComputeWorkGroupSize[axis]:
            raise InputError(
                f"workgroups of {size} invocations: {limits.maxComputeWorkGroupSize[axis]} are possible in "
                f"{'xyz'[axis]}"
            )
    if total > limits.maxComputeWorkGroupInvocations:
        raise InputError(
            f"workgroups of {size} invocations: {limits.maxComputeWorkGroupInvocations} are possible on this device"
        )
    return 0


cdef int require_layout(DeviceCore core, str bindings, push_bytes) except -1:
    cdef vk.Limits limits = core.c_obj.get().limits()
    unknown = set(bindings) - set("bit")
    if unknown:
        raise InputError(f"bindings={bindings!r}: b (buffer), i (storage image) and t (texture) are known")
    for letter, most in (
        ("b", limits.maxPerStageDescriptorStorageBuffers), ("i", limits.maxPerStageDescriptorStorageImages),
        ("t", limits.maxPerStageDescriptorSampledImages),
    ):
        if bindings.count(letter) > most:
            raise DeviceError(f"bindings={bindings!r}: a shader of this device may have {most} x {letter!r}")
    if <uint64_t>len(bindings) > limits.maxPerStageResources:
        raise DeviceError(f"{len(bindings)} bindings: a shader of this device may have {limits.maxPerStageResources}")
    if push_bytes % 4 or not 0 <= push_bytes <= limits.maxPushConstantsSize:
        raise InputError(
            f"push constants of {push_bytes} bytes: a multiple of 4 up to {limits.maxPushConstantsSize} is possible"
        )
    return 0
