"""Stages, accesses, usages and layouts, as Vulkan numbers them."""

cdef enum:
    # VkPipelineStageFlagBits
    STAGE_COMPUTE = 0x800
    STAGE_TRANSFER = 0x1000
    STAGE_HOST = 0x4000
    STAGE_ALL = 0x10000
    # VkAccessFlagBits
    SHADER_READ = 0x20
    SHADER_WRITE = 0x40
    TRANSFER_READ = 0x800
    TRANSFER_WRITE = 0x1000
    HOST_READ = 0x2000
    MEMORY_READ = 0x8000
    MEMORY_WRITE = 0x10000
    # VkImageLayout
    LAYOUT_UNDEFINED = 0
    LAYOUT_GENERAL = 1
    LAYOUT_SHADER_READ_ONLY = 5
    LAYOUT_TRANSFER_SRC = 6
    LAYOUT_TRANSFER_DST = 7
    LAYOUT_PREINITIALIZED = 8
    # VkBufferUsageFlagBits; the first two are those of images too
    USAGE_SRC = 1
    USAGE_DST = 2
    USAGE_STORAGE_BUFFER = 0x20
    # VkImageUsageFlagBits
    USAGE_SAMPLED = 4
    USAGE_STORAGE_IMAGE = 8
