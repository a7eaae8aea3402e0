// Device memory, buffers, images and image views.
#ifndef ETARENA_VK_MEMORY_H
#define ETARENA_VK_MEMORY_H

#include <unistd.h>

#include <algorithm>

#include "vk_context.h"

namespace etvk {

struct Requirements {
  uint64_t size, alignment;
  uint32_t type_bits;
};

inline Requirements plain(const VkMemoryRequirements& found) {
  return {found.size, found.alignment, found.memoryTypeBits};
}

class Buffer : public Owned<VkBuffer, kBuffer, &DeviceFunctions::DestroyBuffer> {
 public:
  // `external`: VkExternalMemoryHandleTypeFlags of the memory it will be bound to, or 0.
  Buffer(const std::shared_ptr<Context>& context, uint64_t size, uint32_t usage, uint32_t external)
      : Owned(context, create(*context, size, usage, external)) {}
  Buffer(const std::shared_ptr<Context>& context, uint64_t handle) : Owned(context, (VkBuffer)handle, true) {}

  Requirements requirements() const {
    VkMemoryRequirements found = {};
    context_->fn.GetBufferMemoryRequirements(context_->device(), handle_, &found);
    return plain(found);
  }
  void bind(uint64_t memory, uint64_t offset) {
    context_->run("vkBindBufferMemory", [&] {
      return context_->fn.BindBufferMemory(context_->device(), handle_, (VkDeviceMemory)memory, offset);
    });
  }

 private:
  static VkBuffer create(Context& context, uint64_t size, uint32_t usage, uint32_t external) {
    VkExternalMemoryBufferCreateInfo types = {};
    types.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
    types.handleTypes = external;
    VkBufferCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.pNext = external != 0 ? &types : nullptr;
    info.size = size;
    info.usage = usage;
    return create_object<VkBuffer>(context, "vkCreateBuffer", context.fn.CreateBuffer, info);
  }
};

class Image : public Owned<VkImage, kImage, &DeviceFunctions::DestroyImage> {
 public:
  // Optimal tiling, one mip level, one layer, one sample; three-dimensional if depth is above one.
  Image(const std::shared_ptr<Context>& context, uint32_t width, uint32_t height, uint32_t depth, uint32_t format,
        uint32_t usage)
      : Owned(context, create(*context, width, height, depth, format, usage)) {}
  Image(const std::shared_ptr<Context>& context, uint64_t handle) : Owned(context, (VkImage)handle, true) {}

  Requirements requirements() const {
    VkMemoryRequirements found = {};
    context_->fn.GetImageMemoryRequirements(context_->device(), handle_, &found);
    return plain(found);
  }
  void bind(uint64_t memory, uint64_t offset) {
    context_->run("vkBindImageMemory", [&] {
      return context_->fn.BindImageMemory(context_->device(), handle_, (VkDeviceMemory)memory, offset);
    });
  }

 private:
  // The device's limits of this format; asking for more would be undefined.
  static void require_supported(Context& context, uint32_t width, uint32_t height, uint32_t depth, uint32_t format,
                                uint32_t usage) {
    VkImageFormatProperties found = {};
    const VkResult result = context.instance().fn.GetPhysicalDeviceImageFormatProperties(
        context.physical(), static_cast<VkFormat>(format), depth > 1 ? VK_IMAGE_TYPE_3D : VK_IMAGE_TYPE_2D,
        VK_IMAGE_TILING_OPTIMAL, usage, 0, &found);
    if (result < 0)
      throw Failure(
          result, "vkGetPhysicalDeviceImageFormatProperties",
          "the device has no images of format " + std::to_string(format) + " for usage " + std::to_string(usage));
    if (width > found.maxExtent.width || height > found.maxExtent.height || depth > found.maxExtent.depth)
      throw Failure(VK_ERROR_FORMAT_NOT_SUPPORTED, "vkGetPhysicalDeviceImageFormatProperties",
                    "the image is larger than the device allows for its format");
  }

  static VkImage create(Context& context, uint32_t width, uint32_t height, uint32_t depth, uint32_t format,
                        uint32_t usage) {
    require_supported(context, width, height, depth, format, usage);
    VkImageCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.imageType = depth > 1 ? VK_IMAGE_TYPE_3D : VK_IMAGE_TYPE_2D;
    info.format = static_cast<VkFormat>(format);
    info.extent = {width, height, depth};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = VK_IMAGE_TILING_OPTIMAL;
    info.usage = usage;
    return create_object<VkImage>(context, "vkCreateImage", context.fn.CreateImage, info);
  }
};

class ImageView : public Owned<VkImageView, kImageView, &DeviceFunctions::DestroyImageView> {
 public:
  ImageView(const std::shared_ptr<Context>& context, uint64_t image, uint32_t format, bool three_dimensional)
      : Owned(context, create(*context, image, format, three_dimensional)) {}

 private:
  static VkImageView create(Context& context, uint64_t image, uint32_t format, bool three_dimensional) {
    VkImageViewCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
    info.image = (VkImage)image;
    info.viewType = three_dimensional ? VK_IMAGE_VIEW_TYPE_3D : VK_IMAGE_VIEW_TYPE_2D;
    info.format = static_cast<VkFormat>(format);
    info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    return create_object<VkImageView>(context, "vkCreateImageView", context.fn.CreateImageView, info);
  }
};

// Where memory comes from, if not new, and what else it is for.
struct MemorySource {
  uint32_t export_types = 0;  // VkExternalMemoryHandleTypeFlags that it can be exported as
  uint32_t import_type = 0;   // kind of `fd` or `host_pointer`
  int fd = -1;                // duplicated: the caller's stays the caller's
  uint64_t host_pointer = 0;
  uint64_t dedicated_buffer = 0;
};

class Memory : public Owned<VkDeviceMemory, kMemory, &DeviceFunctions::FreeMemory> {
 public:
  Memory(const std::shared_ptr<Context>& context, uint64_t size, uint32_t type, const MemorySource& source)
      : Owned(context, create(*context, size, type, source)),
        size_(size),
        account_(source.import_type != 0 ? 0 : size),
        coherent_(context->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) {}
  ~Memory() {
    if (context_ != nullptr) context_->return_memory(account_);
  }

  uint64_t size() const { return size_; }
  uint64_t map() {
    if (mapped_ == nullptr)
      context_->run("vkMapMemory",
                    [&] { return context_->fn.MapMemory(context_->device(), handle_, 0, VK_WHOLE_SIZE, 0, &mapped_); });
    return (uint64_t)mapped_;
  }
  // Let the device see what the CPU wrote, and the other way round. Whole memory: that is always aligned.
  void flush() {
    if (coherent_ || mapped_ == nullptr) return;
    const VkMappedMemoryRange range = whole();
    context_->run("vkFlushMappedMemoryRanges",
                  [&] { return context_->fn.FlushMappedMemoryRanges(context_->device(), 1, &range); });
  }
  void invalidate() {
    if (coherent_ || mapped_ == nullptr) return;
    const VkMappedMemoryRange range = whole();
    context_->run("vkInvalidateMappedMemoryRanges",
                  [&] { return context_->fn.InvalidateMappedMemoryRanges(context_->device(), 1, &range); });
  }
  int export_fd(uint32_t type) {
    VkMemoryGetFdInfoKHR info = {};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
    info.memory = handle_;
    info.handleType = static_cast<VkExternalMemoryHandleTypeFlagBits>(type);
    int fd = -1;
    const auto get = context_->extension(context_->fn.GetMemoryFdKHR, "vkGetMemoryFdKHR");
    context_->run("vkGetMemoryFdKHR", [&] { return get(context_->device(), &info, &fd); });
    return fd;
  }

 private:
  VkMappedMemoryRange whole() const {
    VkMappedMemoryRange range = {};
    range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
    range.memory = handle_;
    range.size = VK_WHOLE_SIZE;
    return range;
  }

  static VkDeviceMemory create(Context& context, uint64_t size, uint32_t type, const MemorySource& source) {
    if (source.import_type != 0) return allocate(context, size, type, source);
    context.take_memory(size, type);
    try {
      return allocate(context, size, type, source);
    } catch (...) {
      context.return_memory(size);
      throw;
    }
  }

  static VkDeviceMemory allocate(Context& context, uint64_t size, uint32_t type, const MemorySource& source) {
    VkMemoryAllocateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.allocationSize = size;
    info.memoryTypeIndex = type;
    VkExportMemoryAllocateInfo exported = {VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO, info.pNext,
                                           source.export_types};
    if (source.export_types != 0) info.pNext = &exported;
    const auto import_type = static_cast<VkExternalMemoryHandleTypeFlagBits>(source.import_type);
    VkImportMemoryHostPointerInfoEXT host = {VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, info.pNext,
                                             import_type, reinterpret_cast<void*>(source.host_pointer)};
    if (source.host_pointer != 0) info.pNext = &host;
    VkMemoryDedicatedAllocateInfo dedicated = {VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, info.pNext,
                                               VK_NULL_HANDLE, (VkBuffer)source.dedicated_buffer};
    if (source.dedicated_buffer != 0) info.pNext = &dedicated;
    VkImportMemoryFdInfoKHR imported = {VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, info.pNext, import_type, -1};
    if (source.fd >= 0) {
      imported.fd = dup(source.fd);  // a successful import takes it
      if (imported.fd < 0) throw Failure(VK_ERROR_INVALID_EXTERNAL_HANDLE, "dup", "no open file descriptor");
      info.pNext = &imported;
    }
    try {
      return create_object<VkDeviceMemory>(context, "vkAllocateMemory", context.fn.AllocateMemory, info);
    } catch (...) {
      if (imported.fd >= 0) ::close(imported.fd);
      throw;
    }
  }

  uint64_t size_, account_;
  bool coherent_;
  void* mapped_ = nullptr;
};

// Bits of the memory types that host memory at an address can be imported as.
inline uint32_t host_pointer_types(Context& context, uint64_t address) {
  VkMemoryHostPointerPropertiesEXT found = {};
  found.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT;
  const auto get =
      context.extension(context.fn.GetMemoryHostPointerPropertiesEXT, "vkGetMemoryHostPointerPropertiesEXT");
  context.run("vkGetMemoryHostPointerPropertiesEXT", [&] {
    return get(context.device(), VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
               reinterpret_cast<const void*>(address), &found);
  });
  return found.memoryTypeBits;
}

// VkExternalMemoryFeatureFlags of buffers whose memory has this handle type.
inline uint32_t external_buffer_features(Context& context, uint32_t usage, uint32_t type) {
  VkPhysicalDeviceExternalBufferInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO;
  info.usage = usage;
  info.handleType = static_cast<VkExternalMemoryHandleTypeFlagBits>(type);
  VkExternalBufferProperties found = {};
  found.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES;
  context.instance().fn.GetPhysicalDeviceExternalBufferProperties(context.physical(), &info, &found);
  return found.externalMemoryProperties.externalMemoryFeatures;
}

}  // namespace etvk
#endif
