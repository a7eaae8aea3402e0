// What a physical device says about itself, as plain data.
#ifndef ETARENA_VK_PHYSICAL_H
#define ETARENA_VK_PHYSICAL_H

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "vk_instance.h"

namespace etvk {

// The features that etarena knows, by the struct that holds them. Applications name them as Vulkan does.
// clang-format off
#define ETVK_FEATURES_10(F) \
  F(robustBufferAccess) F(shaderFloat64) F(shaderInt64) F(shaderInt16) F(shaderStorageImageExtendedFormats) \
  F(shaderStorageImageReadWithoutFormat) F(shaderStorageImageWriteWithoutFormat)
#define ETVK_FEATURES_11(F) \
  F(storageBuffer16BitAccess) F(uniformAndStorageBuffer16BitAccess) F(storagePushConstant16) \
  F(variablePointers)
#define ETVK_FEATURES_12(F) \
  F(storageBuffer8BitAccess) F(uniformAndStorageBuffer8BitAccess) F(storagePushConstant8) F(shaderFloat16) \
  F(shaderInt8) F(timelineSemaphore) F(hostQueryReset) F(scalarBlockLayout) F(vulkanMemoryModel) \
  F(vulkanMemoryModelDeviceScope) F(bufferDeviceAddress)
// clang-format on

// The structs a device is asked about, and created with.
struct Features {
  VkPhysicalDeviceFeatures2 core = {};
  VkPhysicalDeviceVulkan11Features v11 = {};
  VkPhysicalDeviceVulkan12Features v12 = {};

  explicit Features(bool with_12) {
    core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    v11.pNext = &v12;
    if (with_12) core.pNext = &v11;
  }
  Features(const Features&) = delete;
  Features& operator=(const Features&) = delete;

  VkBool32* find(const std::string& name) {
#define ETVK_FIND_10(field) \
  if (name == #field) return &core.features.field;
#define ETVK_FIND_11(field) \
  if (name == #field) return &v11.field;
#define ETVK_FIND_12(field) \
  if (name == #field) return &v12.field;
    ETVK_FEATURES_10(ETVK_FIND_10)
    ETVK_FEATURES_11(ETVK_FIND_11)
    ETVK_FEATURES_12(ETVK_FIND_12)
#undef ETVK_FIND_10
#undef ETVK_FIND_11
#undef ETVK_FIND_12
    return nullptr;
  }
};

inline std::vector<std::string> feature_names() {
  return {
#define ETVK_NAME(field) #field,
      ETVK_FEATURES_10(ETVK_NAME) ETVK_FEATURES_11(ETVK_NAME) ETVK_FEATURES_12(ETVK_NAME)
#undef ETVK_NAME
  };
}

using Numbers = std::vector<std::pair<std::string, uint64_t>>;

struct Description {
  std::string name, driver_name, driver_info, device_uuid, driver_uuid, cache_uuid;
  uint32_t kind = 0, api_version = 0, driver_version = 0, vendor = 0, device = 0;
  double timestamp_period = 0;
  Numbers limits;
  std::vector<std::pair<uint32_t, uint32_t>> memory_types;  // property flags, heap
  std::vector<std::pair<uint64_t, uint32_t>> memory_heaps;  // bytes, flags
  std::vector<std::vector<uint32_t>> queue_families;        // flags, count, valid bits of time stamps
  std::vector<std::string> extensions, features;
};

inline std::vector<std::string> device_extensions(const Instance& instance, VkPhysicalDevice physical) {
  uint32_t count = 0;
  instance.fn.EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> found(count);
  instance.fn.EnumerateDeviceExtensionProperties(physical, nullptr, &count, found.data());
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(found[i].extensionName);
  return names;
}

inline bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

inline void describe_limits(const VkPhysicalDeviceLimits& limits, Numbers* out) {
#define ETVK_LIMIT(field) out->emplace_back(#field, limits.field);
  ETVK_LIMIT(maxStorageBufferRange)
  ETVK_LIMIT(maxUniformBufferRange)
  ETVK_LIMIT(maxPushConstantsSize)
  ETVK_LIMIT(maxMemoryAllocationCount)
  ETVK_LIMIT(bufferImageGranularity)
  ETVK_LIMIT(maxImageDimension2D)
  ETVK_LIMIT(maxImageDimension3D)
  ETVK_LIMIT(maxBoundDescriptorSets)
  ETVK_LIMIT(maxPerStageDescriptorStorageBuffers)
  ETVK_LIMIT(maxPerStageDescriptorStorageImages)
  ETVK_LIMIT(maxPerStageDescriptorSampledImages)
  ETVK_LIMIT(maxPerStageResources)
  ETVK_LIMIT(maxComputeSharedMemorySize)
  ETVK_LIMIT(maxComputeWorkGroupInvocations)
  ETVK_LIMIT(minMemoryMapAlignment)
  ETVK_LIMIT(minStorageBufferOffsetAlignment)
  ETVK_LIMIT(minUniformBufferOffsetAlignment)
  ETVK_LIMIT(optimalBufferCopyOffsetAlignment)
  ETVK_LIMIT(optimalBufferCopyRowPitchAlignment)
  ETVK_LIMIT(nonCoherentAtomSize)
#undef ETVK_LIMIT
  static const char* const kAxes[] = {"X", "Y", "Z"};
  for (int axis = 0; axis < 3; ++axis) {
    out->emplace_back(std::string("maxComputeWorkGroupCount") + kAxes[axis], limits.maxComputeWorkGroupCount[axis]);
    out->emplace_back(std::string("maxComputeWorkGroupSize") + kAxes[axis], limits.maxComputeWorkGroupSize[axis]);
  }
}

inline void describe_properties(const Instance& instance, VkPhysicalDevice physical, bool with_12, Description* out) {
  VkPhysicalDeviceMaintenance3Properties maintenance = {};
  maintenance.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
  VkPhysicalDeviceIDProperties id = {};
  id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
  id.pNext = &maintenance;
  VkPhysicalDeviceSubgroupProperties subgroup = {};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  subgroup.pNext = &id;
  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &subgroup;
  VkPhysicalDeviceDriverProperties driver = {};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {};
  host.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT;
  if (with_12) {
    driver.pNext = properties.pNext;
    properties.pNext = &driver;
  }
  if (contains(out->extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) {
    host.pNext = properties.pNext;
    properties.pNext = &host;
  }
  instance.fn.GetPhysicalDeviceProperties2(physical, &properties);
  const VkPhysicalDeviceProperties& core = properties.properties;
  out->name = core.deviceName;
  out->kind = core.deviceType;
  out->driver_version = core.driverVersion;
  out->vendor = core.vendorID;
  out->device = core.deviceID;
  out->timestamp_period = core.limits.timestampPeriod;
  out->driver_name = driver.driverName;
  out->driver_info = driver.driverInfo;
  out->cache_uuid.assign(reinterpret_cast<const char*>(core.pipelineCacheUUID), VK_UUID_SIZE);
  out->device_uuid.assign(reinterpret_cast<const char*>(id.deviceUUID), VK_UUID_SIZE);
  out->driver_uuid.assign(reinterpret_cast<const char*>(id.driverUUID), VK_UUID_SIZE);
  describe_limits(core.limits, &out->limits);
  out->limits.emplace_back("maxMemoryAllocationSize", maintenance.maxMemoryAllocationSize);
  out->limits.emplace_back("minImportedHostPointerAlignment", host.minImportedHostPointerAlignment);
  out->limits.emplace_back("subgroupSize", subgroup.subgroupSize);
  out->limits.emplace_back("subgroupSupportedOperations", subgroup.supportedOperations);
}

inline void describe_memory_and_queues(const Instance& instance, VkPhysicalDevice physical, Description* out) {
  VkPhysicalDeviceMemoryProperties memory = {};
  instance.fn.GetPhysicalDeviceMemoryProperties(physical, &memory);
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i)
    out->memory_types.emplace_back(memory.memoryTypes[i].propertyFlags, memory.memoryTypes[i].heapIndex);
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i)
    out->memory_heaps.emplace_back(memory.memoryHeaps[i].size, memory.memoryHeaps[i].flags);
  uint32_t count = 0;
  instance.fn.GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  instance.fn.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  for (const VkQueueFamilyProperties& family : families)
    out->queue_families.push_back({family.queueFlags, family.queueCount, family.timestampValidBits});
}

// `handle` must be one of the instance's.
inline Description describe(const Instance& instance, uint64_t handle) {
  const VkPhysicalDevice physical = (VkPhysicalDevice)handle;
  Description out;
  out.extensions = device_extensions(instance, physical);
  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  instance.fn.GetPhysicalDeviceProperties2(physical, &properties);
  out.api_version = properties.properties.apiVersion;
  const bool with_12 = std::min(out.api_version, instance.api_version()) >= VK_API_VERSION_1_2;
  describe_properties(instance, physical, with_12, &out);
  describe_memory_and_queues(instance, physical, &out);
  Features features(with_12);
  instance.fn.GetPhysicalDeviceFeatures2(physical, &features.core);
  for (const std::string& name : feature_names())
    if (*features.find(name)) out.features.push_back(name);
  return out;
}

}  // namespace etvk
#endif
