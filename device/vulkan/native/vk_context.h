// One VkDevice, made here or the application's: its functions, limits on memory, injected failures, live objects.
#ifndef ETARENA_VK_CONTEXT_H
#define ETARENA_VK_CONTEXT_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "vk_physical.h"

namespace etvk {

enum Kind {
  kBuffer,
  kMemory,
  kImage,
  kImageView,
  kFence,
  kSemaphore,
  kQueryPool,
  kCommandPool,
  kShaderModule,
  kSampler,
  kSetLayout,
  kPipelineLayout,
  kPipeline,
  kPipelineCache,
  kDescriptorPool,
  kKinds
};

inline const char* kind_name(int kind) {
  static const char* const names[] = {"buffer",
                                      "memory block",
                                      "image",
                                      "image view",
                                      "fence",
                                      "semaphore",
                                      "query pool",
                                      "command pool",
                                      "shader module",
                                      "sampler",
                                      "descriptor set layout",
                                      "pipeline layout",
                                      "pipeline",
                                      "pipeline cache",
                                      "descriptor pool"};
  return names[kind];
}

class Context {
 public:
  // Makes a VkDevice with one queue of a family.
  Context(std::shared_ptr<Instance> instance, uint64_t physical, uint32_t family,
          const std::vector<std::string>& extensions, const std::vector<std::string>& features)
      : instance_(std::move(instance)), physical_((VkPhysicalDevice)physical), owned_(true) {
    create(family, extensions, features);
    fetch();
    read_properties();
  }
  // Uses the application's, which outlives this object.
  Context(std::shared_ptr<Instance> instance, uint64_t physical, uint64_t device)
      : instance_(std::move(instance)),
        physical_((VkPhysicalDevice)physical),
        device_((VkDevice)device),
        owned_(false) {
    fetch();
    read_properties();
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  // With work that never ends nothing is destroyed: a leak is better than a dangling handle.
  ~Context() {
    if (owned_ && device_ != VK_NULL_HANDLE && !leaked_) fn.DestroyDevice(device_, nullptr);
  }

  VkDevice device() const { return device_; }
  uint64_t number() const { return (uint64_t)device_; }
  bool lost() const { return lost_; }

  // Makes a call and throws what it refuses. After the device was lost only destruction is let through.
  template <class Call>
  VkResult run(const char* name, Call&& call) {
    if (lost_) throw Failure(VK_ERROR_DEVICE_LOST, name, "the device was lost before");
    VkResult result = injected(name);
    if (result == VK_SUCCESS) result = call();
    if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
    if (result < 0) throw Failure(result, name, "");
    return result;
  }

  // A function that only an extension gives: applications may say that one is enabled which is not.
  template <class Function>
  Function extension(Function function, const char* name) const {
    if (function == nullptr)
      throw Missing(std::string("the VkDevice has no ") + name + ": it was made without the extension that gives it");
    return function;
  }

  // Lets the call of this name fail with `result` once, after `after` calls that succeed. For tests.
  void inject(const std::string& name, int result, uint64_t after) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (result == VK_SUCCESS)
      faults_.erase(name);
    else
      faults_[name] = {after, static_cast<VkResult>(result)};
  }

  // The account of VkDeviceMemory; bytes.
  void set_memory_limit(uint64_t limit) { memory_limit_ = limit; }
  uint64_t memory_limit() const { return memory_limit_; }
  uint64_t memory_live() const { return memory_live_; }
  void take_memory(uint64_t nbytes, uint32_t type) {
    const uint64_t heap = memory.memoryHeaps[memory.memoryTypes[type].heapIndex].size;
    if (nbytes > heap)
      throw Failure(VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkAllocateMemory",
                    std::to_string(nbytes) + " bytes are more than the " + std::to_string(heap) + " of the heap");
    uint64_t live = memory_live_;
    do {
      if (memory_limit_ != 0 && (live > memory_limit_ || nbytes > memory_limit_ - live))
        throw Failure(VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkAllocateMemory",
                      std::to_string(nbytes) + " bytes on top of " + std::to_string(live) +
                          " are more than the limit of " + std::to_string(memory_limit_));
    } while (!memory_live_.compare_exchange_weak(live, live + nbytes));
  }
  void return_memory(uint64_t nbytes) { memory_live_ -= nbytes; }

  void count(Kind kind, int change) { live_[kind] += change; }
  std::vector<std::pair<std::string, int64_t>> live() const {
    std::vector<std::pair<std::string, int64_t>> out;
    for (int kind = 0; kind < kKinds; ++kind)
      if (live_[kind] != 0) out.emplace_back(kind_name(kind), live_[kind]);
    return out;
  }
  void leak() {
    leaked_ = true;
    instance_->leak();
  }
  bool leaked() const { return leaked_; }
  const Instance& instance() const { return *instance_; }
  VkPhysicalDevice physical() const { return physical_; }
  const VkPhysicalDeviceLimits& limits() const { return properties.limits; }
  uint32_t family_count() const {
    uint32_t count = 0;
    instance_->fn.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
    return count;
  }
  uint32_t memory_type_count() const { return memory.memoryTypeCount; }

  DeviceFunctions fn;
  VkPhysicalDeviceMemoryProperties memory = {};
  VkPhysicalDeviceProperties properties = {};

 private:
  VkResult injected(const char* name) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = faults_.find(name);
    if (found == faults_.end() || found->second.first-- != 0) return VK_SUCCESS;
    const VkResult result = found->second.second;
    faults_.erase(found);
    return result;
  }

  void create(uint32_t family, const std::vector<std::string>& extensions, const std::vector<std::string>& features) {
    Features wanted(true);
    for (const std::string& name : features)
      if (VkBool32* feature = wanted.find(name)) *feature = VK_TRUE;
    std::vector<const char*> names;
    for (const std::string& name : extensions) names.push_back(name.c_str());
    const float priority = 1;
    VkDeviceQueueCreateInfo queue = {};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &wanted.core;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(names.size());
    info.ppEnabledExtensionNames = names.data();
    const VkResult result = instance_->fn.CreateDevice(physical_, &info, nullptr, &device_);
    if (result < 0) throw Failure(result, "vkCreateDevice", "");
  }

  void fetch() {
    std::string missing;
    const PFN_vkGetDeviceProcAddr get = instance_->fn.GetDeviceProcAddr;
#define ETVK_FETCH(name) fn.name = reinterpret_cast<PFN_vk##name>(get(device_, "vk" #name));
#define ETVK_FETCH_REQUIRED(name) ETVK_FETCH(name) if (fn.name == nullptr) missing = "vk" #name;
    ETVK_DEVICE_FUNCTIONS(ETVK_FETCH_REQUIRED)
    ETVK_DEVICE_EXTENSIONS(ETVK_FETCH)
#undef ETVK_FETCH_REQUIRED
    // In version 1.2 these are part of the core.
#define ETVK_FETCH_CORE(name) \
  if (fn.name##KHR == nullptr) fn.name##KHR = reinterpret_cast<PFN_vk##name##KHR>(get(device_, "vk" #name));
    ETVK_FETCH_CORE(GetSemaphoreCounterValue)
    ETVK_FETCH_CORE(WaitSemaphores)
    ETVK_FETCH_CORE(SignalSemaphore)
#undef ETVK_FETCH_CORE
#undef ETVK_FETCH
    if (missing.empty()) return;
    if (owned_ && fn.DestroyDevice != nullptr) fn.DestroyDevice(device_, nullptr);
    throw Missing("the VkDevice has no " + missing);
  }

  void read_properties() {
    instance_->fn.GetPhysicalDeviceMemoryProperties(physical_, &memory);
    VkPhysicalDeviceProperties2 found = {};
    found.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    instance_->fn.GetPhysicalDeviceProperties2(physical_, &found);
    properties = found.properties;
  }

  std::shared_ptr<Instance> instance_;
  VkPhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  bool owned_;
  std::atomic<bool> lost_{false}, leaked_{false};
  std::mutex mutex_;
  std::map<std::string, std::pair<uint64_t, VkResult>> faults_;
  std::atomic<uint64_t> memory_limit_{0}, memory_live_{0};
  std::atomic<int64_t> live_[kKinds] = {};
};

// A Vulkan object of a device: moved, never copied, destroyed once. Borrowed ones are the application's.
template <class Handle, Kind kind,
          void (VKAPI_PTR* DeviceFunctions::*destroy)(VkDevice, Handle, const VkAllocationCallbacks*)>
class Owned {
 public:
  Owned(std::shared_ptr<Context> context, Handle handle, bool borrowed = false)
      : context_(std::move(context)), handle_(handle), borrowed_(borrowed) {
    if (!borrowed_) context_->count(kind, 1);
  }
  Owned(Owned&& other) noexcept
      : context_(std::move(other.context_)), handle_(other.handle_), borrowed_(other.borrowed_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    std::swap(borrowed_, other.borrowed_);
    return *this;
  }
  ~Owned() {
    if (context_ == nullptr || borrowed_ || context_->leaked()) return;
    (context_->fn.*destroy)(context_->device(), handle_, nullptr);
    context_->count(kind, -1);
  }

  Handle handle() const { return handle_; }
  uint64_t number() const { return (uint64_t)handle_; }
  Context& context() const { return *context_; }

 protected:
  std::shared_ptr<Context> context_;
  Handle handle_;
  bool borrowed_;
};

// Makes the call `create(device, info, null, &handle)` of the table.
template <class Handle, class Info, class Create>
Handle create_object(Context& context, const char* name, Create create, const Info& info) {
  Handle handle = VK_NULL_HANDLE;
  context.run(name, [&] { return create(context.device(), &info, nullptr, &handle); });
  return handle;
}

}  // namespace etvk
#endif
