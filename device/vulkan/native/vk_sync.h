// Fences, semaphores and query pools.
#ifndef ETARENA_VK_SYNC_H
#define ETARENA_VK_SYNC_H

#include "vk_context.h"

namespace etvk {

class Fence : public Owned<VkFence, kFence, &DeviceFunctions::DestroyFence> {
 public:
  explicit Fence(const std::shared_ptr<Context>& context) : Owned(context, create(*context)) {}

  // Whether the device is done with it, or will never be: never throws, whatever was injected.
  bool done() const noexcept {
    const VkResult status = context_->fn.GetFenceStatus(context_->device(), handle_);
    return status == VK_SUCCESS || status == VK_ERROR_DEVICE_LOST;
  }
  // False: not within so many nanoseconds.
  bool wait(uint64_t timeout) {
    return context_->run("vkWaitForFences", [&] {
      return context_->fn.WaitForFences(context_->device(), 1, &handle_, VK_TRUE, timeout);
    }) == VK_SUCCESS;
  }
  // The same on a device that may be lost: only the driver's own word counts.
  bool wait_quietly(uint64_t timeout) const noexcept {
    return context_->fn.WaitForFences(context_->device(), 1, &handle_, VK_TRUE, timeout) != VK_TIMEOUT;
  }
  void reset() {
    context_->run("vkResetFences", [&] { return context_->fn.ResetFences(context_->device(), 1, &handle_); });
  }

 private:
  static VkFence create(Context& context) {
    VkFenceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    return create_object<VkFence>(context, "vkCreateFence", context.fn.CreateFence, info);
  }
};

class Semaphore : public Owned<VkSemaphore, kSemaphore, &DeviceFunctions::DestroySemaphore> {
 public:
  Semaphore(const std::shared_ptr<Context>& context, bool timeline, uint64_t value)
      : Owned(context, create(*context, timeline, value)) {}
  Semaphore(const std::shared_ptr<Context>& context, uint64_t handle) : Owned(context, (VkSemaphore)handle, true) {}

  // Timeline semaphores only:
  uint64_t value() {
    uint64_t value = 0;
    context_->run("vkGetSemaphoreCounterValue", [&] {
      return extension_function(&DeviceFunctions::GetSemaphoreCounterValueKHR, "vkGetSemaphoreCounterValue")(
          context_->device(), handle_, &value);
    });
    return value;
  }
  bool wait(uint64_t value, uint64_t timeout) {
    VkSemaphoreWaitInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &handle_;
    info.pValues = &value;
    return context_->run("vkWaitSemaphores", [&] {
      return extension_function(&DeviceFunctions::WaitSemaphoresKHR, "vkWaitSemaphores")(context_->device(), &info,
                                                                                         timeout);
    }) == VK_SUCCESS;
  }
  void signal(uint64_t value) {
    VkSemaphoreSignalInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = handle_;
    info.value = value;
    context_->run("vkSignalSemaphore", [&] {
      return extension_function(&DeviceFunctions::SignalSemaphoreKHR, "vkSignalSemaphore")(context_->device(), &info);
    });
  }

 private:
  template <class Function>
  Function extension_function(Function DeviceFunctions::* member, const char* name) const {
    return context_->extension(context_->fn.*member, name);
  }
  static VkSemaphore create(Context& context, bool timeline, uint64_t value) {
    VkSemaphoreTypeCreateInfo type = {};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    type.initialValue = value;
    VkSemaphoreCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = timeline ? &type : nullptr;
    return create_object<VkSemaphore>(context, "vkCreateSemaphore", context.fn.CreateSemaphore, info);
  }
};

// Time stamps.
class QueryPool : public Owned<VkQueryPool, kQueryPool, &DeviceFunctions::DestroyQueryPool> {
 public:
  QueryPool(const std::shared_ptr<Context>& context, uint32_t count) : Owned(context, create(*context, count)) {}

  // Ticks, for those of [first, first + count) that are written; false if one is not.
  bool read(uint32_t first, uint32_t count, std::vector<uint64_t>* ticks) {
    ticks->assign(count, 0);
    return context_->run("vkGetQueryPoolResults", [&] {
      return context_->fn.GetQueryPoolResults(context_->device(), handle_, first, count, count * sizeof(uint64_t),
                                              ticks->data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
    }) == VK_SUCCESS;
  }

 private:
  static VkQueryPool create(Context& context, uint32_t count) {
    VkQueryPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = count;
    return create_object<VkQueryPool>(context, "vkCreateQueryPool", context.fn.CreateQueryPool, info);
  }
};

}  // namespace etvk
#endif
