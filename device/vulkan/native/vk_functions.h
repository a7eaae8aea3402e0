// Vulkan's functions, fetched at run time: nothing links libvulkan.
#ifndef ETARENA_VK_FUNCTIONS_H
#define ETARENA_VK_FUNCTIONS_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#ifndef VK_VERSION_1_2
#error "these Vulkan headers are older than version 1.2: install a newer libvulkan-dev"
#endif

// clang-format off
#define ETVK_GLOBAL_FUNCTIONS(F) \
  F(CreateInstance) F(EnumerateInstanceLayerProperties) F(EnumerateInstanceExtensionProperties) \
  F(EnumerateInstanceVersion)

#define ETVK_INSTANCE_FUNCTIONS(F) \
  F(DestroyInstance) F(EnumeratePhysicalDevices) F(GetPhysicalDeviceProperties2) \
  F(GetPhysicalDeviceFeatures2) F(GetPhysicalDeviceMemoryProperties) \
  F(GetPhysicalDeviceQueueFamilyProperties) F(GetPhysicalDeviceExternalBufferProperties) \
  F(GetPhysicalDeviceImageFormatProperties) F(EnumerateDeviceExtensionProperties) F(CreateDevice) F(GetDeviceProcAddr)
// clang-format on

// Null where the extension is not enabled.
// clang-format off
#define ETVK_INSTANCE_EXTENSIONS(F) \
  F(CreateDebugUtilsMessengerEXT) F(DestroyDebugUtilsMessengerEXT)

#define ETVK_DEVICE_FUNCTIONS(F) \
  F(DestroyDevice) F(GetDeviceQueue) F(QueueSubmit) F(AllocateMemory) F(FreeMemory) F(MapMemory) \
  F(UnmapMemory) F(FlushMappedMemoryRanges) F(InvalidateMappedMemoryRanges) F(CreateBuffer) \
  F(DestroyBuffer) F(GetBufferMemoryRequirements) F(BindBufferMemory) F(CreateImage) F(DestroyImage) \
  F(GetImageMemoryRequirements) F(BindImageMemory) F(CreateImageView) F(DestroyImageView) F(CreateFence) \
  F(DestroyFence) F(ResetFences) F(GetFenceStatus) F(WaitForFences) F(CreateSemaphore) F(DestroySemaphore) \
  F(CreateQueryPool) F(DestroyQueryPool) F(GetQueryPoolResults) F(CreateCommandPool) F(DestroyCommandPool) \
  F(ResetCommandPool) F(AllocateCommandBuffers) F(BeginCommandBuffer) F(EndCommandBuffer) \
  F(CmdPipelineBarrier) F(CmdCopyBuffer) F(CmdFillBuffer) F(CmdCopyImage) F(CmdCopyBufferToImage) \
  F(CmdCopyImageToBuffer) F(CmdResetQueryPool) F(CmdWriteTimestamp) F(CreateShaderModule) F(DestroyShaderModule) \
  F(CreateSampler) F(DestroySampler) F(CreateDescriptorSetLayout) F(DestroyDescriptorSetLayout) \
  F(CreateDescriptorPool) F(DestroyDescriptorPool) F(ResetDescriptorPool) F(AllocateDescriptorSets) \
  F(UpdateDescriptorSets) F(CreatePipelineLayout) F(DestroyPipelineLayout) F(CreatePipelineCache) \
  F(DestroyPipelineCache) F(GetPipelineCacheData) F(CreateComputePipelines) F(DestroyPipeline) F(CmdBindPipeline) \
  F(CmdBindDescriptorSets) F(CmdPushConstants) F(CmdDispatch)
// clang-format on

// Null where neither the version nor an extension gives them.
// clang-format off
#define ETVK_DEVICE_EXTENSIONS(F) \
  F(GetMemoryHostPointerPropertiesEXT) F(GetMemoryFdKHR) F(GetMemoryFdPropertiesKHR) \
  F(GetSemaphoreCounterValueKHR) F(WaitSemaphoresKHR) F(SignalSemaphoreKHR)
// clang-format on

namespace etvk {

#define ETVK_MEMBER(name) PFN_vk##name name = nullptr;
struct GlobalFunctions {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  ETVK_GLOBAL_FUNCTIONS(ETVK_MEMBER)
};
struct InstanceFunctions {
  ETVK_INSTANCE_FUNCTIONS(ETVK_MEMBER)
  ETVK_INSTANCE_EXTENSIONS(ETVK_MEMBER)
};
struct DeviceFunctions {
  ETVK_DEVICE_FUNCTIONS(ETVK_MEMBER)
  ETVK_DEVICE_EXTENSIONS(ETVK_MEMBER)
};
#undef ETVK_MEMBER

}  // namespace etvk
#endif
