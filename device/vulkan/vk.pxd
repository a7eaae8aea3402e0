"""The C++ wrappers of Vulkan's objects in native/, repeated for Cython. Handles are numbers of 64 bits."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "vk_failure.h" namespace "etvk" nogil:
    void raise_python()


cdef extern from "vk_instance.h" namespace "etvk" nogil:
    cppclass GlobalFunctions:
        pass

    cppclass Message:
        uint32_t severity
        string id
        string text

    cppclass Messages:
        vector[Message] copy() except +
        void clear()

    GlobalFunctions open_loader(const string& path) except +raise_python

    cppclass Instance:
        Instance(const GlobalFunctions& functions, cbool validation) except +raise_python
        Instance(const GlobalFunctions& functions, uint64_t handle, uint32_t api_version) except +raise_python
        uint64_t number()
        uint32_t api_version()
        Messages& messages()
        void leak()
        vector[uint64_t] physical_device_numbers() except +raise_python


cdef extern from "vk_physical.h" namespace "etvk" nogil:
    cppclass Description:
        string name, driver_name, driver_info, device_uuid, driver_uuid, cache_uuid
        uint32_t kind, api_version, driver_version, vendor, device
        double timestamp_period
        vector[pair[string, uint64_t]] limits
        vector[pair[uint32_t, uint32_t]] memory_types
        vector[pair[uint64_t, uint32_t]] memory_heaps
        vector[vector[uint32_t]] queue_families
        vector[string] extensions, features

    vector[string] feature_names() except +
    Description describe(const Instance& instance, uint64_t physical) except +raise_python


cdef extern from "vk_context.h" namespace "etvk" nogil:
    struct Limits "VkPhysicalDeviceLimits":
        uint32_t maxPushConstantsSize, maxStorageBufferRange, maxPerStageResources
        uint32_t maxPerStageDescriptorStorageBuffers, maxPerStageDescriptorStorageImages
        uint32_t maxPerStageDescriptorSampledImages
        uint64_t minStorageBufferOffsetAlignment
        uint32_t[3] maxComputeWorkGroupCount, maxComputeWorkGroupSize
        uint32_t maxComputeWorkGroupInvocations

    struct Properties "VkPhysicalDeviceProperties":
        uint32_t vendorID, deviceID
        uint8_t[16] pipelineCacheUUID

    cppclass Context:
        const Limits& limits()
        Properties properties
        uint32_t family_count() except +
        Context(shared_ptr[Instance] instance, uint64_t physical, uint32_t family, const vector[string]& extensions,
                const vector[string]& features) except +raise_python
        Context(shared_ptr[Instance] instance, uint64_t physical, uint64_t device) except +raise_python
        uint64_t number()
        cbool lost()
        void inject(const string& name, int result, uint64_t after) except +
        void set_memory_limit(uint64_t limit)
        uint64_t memory_limit()
        uint64_t memory_live()
        uint32_t memory_type_count()
        vector[pair[string, int64_t]] live() except +
        void leak()
        cbool leaked()


cdef extern from "vk_memory.h" namespace "etvk" nogil:
    cppclass Requirements:
        uint64_t size, alignment
        uint32_t type_bits

    cppclass Buffer:
        Buffer(const shared_ptr[Context]& context, uint64_t size, uint32_t usage,
               uint32_t external) except +raise_python
        Buffer(const shared_ptr[Context]& context, uint64_t handle) except +raise_python
        uint64_t number()
        Requirements requirements()
        void bind(uint64_t memory, uint64_t offset) except +raise_python

    cppclass Image:
        Image(const shared_ptr[Context]& context, uint32_t width, uint32_t height, uint32_t depth, uint32_t format,
              uint32_t usage) except +raise_python
        Image(const shared_ptr[Context]& context, uint64_t handle) except +raise_python
        uint64_t number()
        Requirements requirements()
        void bind(uint64_t memory, uint64_t offset) except +raise_python

    cppclass ImageView:
        ImageView(const shared_ptr[Context]& context, uint64_t image, uint32_t format,
                  cbool three_dimensional) except +raise_python
        uint64_t number()

    cppclass MemorySource:
        uint32_t export_types, import_type
        int fd
        uint64_t host_pointer, dedicated_buffer

    cppclass Memory:
        Memory(const shared_ptr[Context]& context, uint64_t size, uint32_t type,
               const MemorySource& source) except +raise_python
        uint64_t number()
        uint64_t size()
        uint64_t map() except +raise_python
        void flush() except +raise_python
        void invalidate() except +raise_python
        int export_fd(uint32_t type) except +raise_python

    uint32_t host_pointer_types(Context& context, uint64_t address) except +raise_python
    uint32_t external_buffer_features(Context& context, uint32_t usage, uint32_t type)


cdef extern from "vk_sync.h" namespace "etvk" nogil:
    cppclass Fence:
        Fence(const shared_ptr[Context]& context) except +raise_python
        uint64_t number()
        cbool done()
        cbool wait(uint64_t timeout) except +raise_python
        cbool wait_quietly(uint64_t timeout)
        void reset() except +raise_python

    cppclass Semaphore:
        Semaphore(const shared_ptr[Context]& context, cbool timeline, uint64_t value) except +raise_python
        Semaphore(const shared_ptr[Context]& context, uint64_t handle) except +raise_python
        uint64_t number()
        uint64_t value() except +raise_python
        cbool wait(uint64_t value, uint64_t timeout) except +raise_python
        void signal(uint64_t value) except +raise_python

    cppclass QueryPool:
        QueryPool(const shared_ptr[Context]& context, uint32_t count) except +raise_python
        uint64_t number()
        cbool read(uint32_t first, uint32_t count, vector[uint64_t]* ticks) except +raise_python


cdef extern from "vk_commands.h" namespace "etvk" nogil:
    cppclass ImageCopy:
        uint64_t buffer_offset
        uint32_t width, height, depth

    struct Owners:
        uint32_t source, to
        cbool give

    cppclass CommandPool:
        CommandPool(const shared_ptr[Context]& context, uint32_t family) except +raise_python
        uint64_t commands()
        void begin(cbool once) except +raise_python
        void end() except +raise_python
        void barrier(uint32_t from_stages, uint32_t from_access, uint32_t to_stages, uint32_t to_access)
        void image_barrier(uint64_t image, uint32_t from_layout, uint32_t to_layout, uint32_t from_stages,
                           uint32_t from_access, uint32_t to_stages, uint32_t to_access)
        void transfer_buffer(uint64_t buffer, uint64_t offset, uint64_t nbytes, const Owners& owners)
        void transfer_image(uint64_t image, uint32_t from_layout, uint32_t to_layout, const Owners& owners)
        void copy_buffer(uint64_t source, uint64_t to, uint64_t from_offset, uint64_t to_offset, uint64_t nbytes)
        void fill_buffer(uint64_t to, uint64_t offset, uint64_t nbytes, uint32_t value)
        void copy_to_image(uint64_t buffer, uint64_t image, const ImageCopy& copy)
        void copy_from_image(uint64_t image, uint64_t buffer, const ImageCopy& copy)
        void copy_image(uint64_t source, uint64_t to, uint32_t width, uint32_t height, uint32_t depth)
        void reset_queries(uint64_t pool, uint32_t first, uint32_t count)
        void write_timestamp(uint64_t pool, uint32_t index)

    cppclass Point:
        uint64_t semaphore, value
        cbool timeline

    cppclass Queue:
        Queue(shared_ptr[Context] context, uint64_t handle, uint32_t family, uint32_t index) except +raise_python
        uint64_t number()
        void submit(uint64_t commands, const vector[Point]& wait, const vector[Point]& signal,
                    uint64_t fence) except +raise_python
        void submit_alone(uint64_t commands, uint64_t fence) except +raise_python


cdef extern from "vk_pipelines.h" namespace "etvk" nogil:
    cppclass PipelineCache:
        PipelineCache(const shared_ptr[Context]& context, const string& data) except +raise_python
        uint64_t number()
        string data() except +raise_python

    struct Constant:
        uint32_t id, value

    cppclass ComputePipeline:
        ComputePipeline(const shared_ptr[Context]& context, const vector[uint32_t]& words, const string& letters,
                        uint32_t push_bytes, const vector[Constant]& constants, uint64_t cache) except +raise_python
        uint64_t number()


cdef extern from "vk_dispatch.h" namespace "etvk" nogil:
    struct Bound:
        uint64_t handle, offset, nbytes
        uint32_t layout

    struct Groups:
        uint32_t x, y, z

    cppclass Dispatcher:
        Dispatcher(shared_ptr[Context] context) except +
        void begin() except +raise_python
        void dispatch(uint64_t commands, const ComputePipeline& pipeline, const vector[Bound]& bound,
                      const char* push, const Groups& groups) except +raise_python
