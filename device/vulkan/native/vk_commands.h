// A queue with its lock, and command pools with the one command buffer that is recorded from each.
#ifndef ETARENA_VK_COMMANDS_H
#define ETARENA_VK_COMMANDS_H

#include "vk_context.h"

namespace etvk {

// Bytes [buffer_offset, ...) of a buffer, rows dense, and all texels of an image.
struct ImageCopy {
  uint64_t buffer_offset;
  uint32_t width, height, depth;
};

// Queue families between which something goes over; the one that gives it away and the one that gets it both say so.
struct Owners {
  uint32_t source, to;
  bool give;
};

class CommandPool : public Owned<VkCommandPool, kCommandPool, &DeviceFunctions::DestroyCommandPool> {
 public:
  CommandPool(const std::shared_ptr<Context>& context, uint32_t family) : Owned(context, create(*context, family)) {
    VkCommandBufferAllocateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = handle_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    context->run("vkAllocateCommandBuffers",
                 [&] { return context->fn.AllocateCommandBuffers(context->device(), &info, &commands_); });
  }

  uint64_t commands() const { return (uint64_t)commands_; }

  // Throws away what was recorded before.
  void begin(bool once) {
    context_->run("vkResetCommandPool", [&] { return context_->fn.ResetCommandPool(context_->device(), handle_, 0); });
    VkCommandBufferBeginInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = once ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT : 0;
    context_->run("vkBeginCommandBuffer", [&] { return context_->fn.BeginCommandBuffer(commands_, &info); });
  }
  void end() {
    context_->run("vkEndCommandBuffer", [&] { return context_->fn.EndCommandBuffer(commands_); });
  }

  // What stage and access masks of the first pair did is done, and seen by those of the second.
  void barrier(uint32_t from_stages, uint32_t from_access, uint32_t to_stages, uint32_t to_access) {
    const VkMemoryBarrier all = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, from_access, to_access};
    context_->fn.CmdPipelineBarrier(commands_, from_stages, to_stages, 0, 1, &all, 0, nullptr, 0, nullptr);
  }
  void image_barrier(uint64_t image, uint32_t from_layout, uint32_t to_layout, uint32_t from_stages,
                     uint32_t from_access, uint32_t to_stages, uint32_t to_access) {
    VkImageMemoryBarrier one = {};
    one.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    one.srcAccessMask = from_access;
    one.dstAccessMask = to_access;
    one.oldLayout = static_cast<VkImageLayout>(from_layout);
    one.newLayout = static_cast<VkImageLayout>(to_layout);
    one.srcQueueFamilyIndex = one.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    one.image = (VkImage)image;
    one.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    context_->fn.CmdPipelineBarrier(commands_, from_stages, to_stages, 0, 0, nullptr, 0, nullptr, 1, &one);
  }

  // Both ends of a change of owner. Writes are done before it goes, and it is seen by all when it has come.
  void transfer_buffer(uint64_t buffer, uint64_t offset, uint64_t nbytes, const Owners& owners) {
    VkBufferMemoryBarrier one = {};
    one.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
    one.srcAccessMask = owners.give ? VK_ACCESS_MEMORY_WRITE_BIT : 0;
    one.dstAccessMask = owners.give ? 0 : VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    one.srcQueueFamilyIndex = owners.source;
    one.dstQueueFamilyIndex = owners.to;
    one.buffer = (VkBuffer)buffer;
    one.offset = offset;
    one.size = nbytes;
    context_->fn.CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                    0, 0, nullptr, 1, &one, 0, nullptr);
  }
  void transfer_image(uint64_t image, uint32_t from_layout, uint32_t to_layout, const Owners& owners) {
    VkImageMemoryBarrier one = {};
    one.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    one.srcAccessMask = owners.give ? VK_ACCESS_MEMORY_WRITE_BIT : 0;
    one.dstAccessMask = owners.give ? 0 : VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    one.oldLayout = static_cast<VkImageLayout>(from_layout);
    one.newLayout = static_cast<VkImageLayout>(to_layout);
    one.srcQueueFamilyIndex = owners.source;
    one.dstQueueFamilyIndex = owners.to;
    one.image = (VkImage)image;
    one.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    context_->fn.CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                    0, 0, nullptr, 0, nullptr, 1, &one);
  }

  void copy_buffer(uint64_t from, uint64_t to, uint64_t from_offset, uint64_t to_offset, uint64_t nbytes) {
    const VkBufferCopy region = {from_offset, to_offset, nbytes};
    context_->fn.CmdCopyBuffer(commands_, (VkBuffer)from, (VkBuffer)to, 1, &region);
  }
  // Offset and bytes are multiples of four.
  void fill_buffer(uint64_t to, uint64_t offset, uint64_t nbytes, uint32_t value) {
    context_->fn.CmdFillBuffer(commands_, (VkBuffer)to, offset, nbytes, value);
  }
  // Images are in the layouts TRANSFER_SRC_OPTIMAL and TRANSFER_DST_OPTIMAL.
  void copy_to_image(uint64_t buffer, uint64_t image, const ImageCopy& copy) {
    const VkBufferImageCopy all = region(copy);
    context_->fn.CmdCopyBufferToImage(commands_, (VkBuffer)buffer, (VkImage)image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                                      1, &all);
  }
  void copy_from_image(uint64_t image, uint64_t buffer, const ImageCopy& copy) {
    const VkBufferImageCopy all = region(copy);
    context_->fn.CmdCopyImageToBuffer(commands_, (VkImage)image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, (VkBuffer)buffer,
                                      1, &all);
  }
  void copy_image(uint64_t from, uint64_t to, uint32_t width, uint32_t height, uint32_t depth) {
    VkImageCopy all = {};
    all.srcSubresource = all.dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    all.extent = {width, height, depth};
    context_->fn.CmdCopyImage(commands_, (VkImage)from, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, (VkImage)to,
                              VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &all);
  }
  void reset_queries(uint64_t pool, uint32_t first, uint32_t count) {
    context_->fn.CmdResetQueryPool(commands_, (VkQueryPool)pool, first, count);
  }
  // Written when everything recorded before is done.
  void write_timestamp(uint64_t pool, uint32_t index) {
    context_->fn.CmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, (VkQueryPool)pool, index);
  }

 private:
  static VkCommandPool create(Context& context, uint32_t family) {
    VkCommandPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.queueFamilyIndex = family;
    return create_object<VkCommandPool>(context, "vkCreateCommandPool", context.fn.CreateCommandPool, info);
  }
  static VkBufferImageCopy region(const ImageCopy& copy) {
    VkBufferImageCopy out = {};
    out.bufferOffset = copy.buffer_offset;
    out.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    out.imageExtent = {copy.width, copy.height, copy.depth};
    return out;
  }

  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

// One semaphore of a submission; the value counts for timeline semaphores.
struct Point {
  uint64_t semaphore, value;
  bool timeline;
};

struct Points {
  std::vector<VkSemaphore> semaphores;
  std::vector<uint64_t> values;
  std::vector<VkPipelineStageFlags> stages;
  bool timeline = false;

  explicit Points(const std::vector<Point>& points) {
    for (const Point& point : points) {
      semaphores.push_back((VkSemaphore)point.semaphore);
      values.push_back(point.value);
      stages.push_back(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
      timeline = timeline || point.timeline;
    }
  }
  uint32_t count() const { return static_cast<uint32_t>(semaphores.size()); }
};

// A VkQueue, which belongs to its device and is not destroyed.
class Queue {
 public:
  // `handle` 0: the queue of that family and index.
  Queue(std::shared_ptr<Context> context, uint64_t handle, uint32_t family, uint32_t index)
      : context_(std::move(context)), handle_((VkQueue)handle) {
    if (handle == 0) context_->fn.GetDeviceQueue(context_->device(), family, index, &handle_);
    if (handle_ == VK_NULL_HANDLE) throw Missing("the VkDevice has no queue of that family and index");
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  uint64_t number() const { return (uint64_t)handle_; }
  void submit(uint64_t commands, const std::vector<Point>& wait, const std::vector<Point>& signal, uint64_t fence) {
    const Points before(wait), after(signal);
    const VkCommandBuffer buffer = (VkCommandBuffer)commands;
    VkTimelineSemaphoreSubmitInfo timeline = {};
    timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    timeline.waitSemaphoreValueCount = before.count();
    timeline.pWaitSemaphoreValues = before.values.data();
    timeline.signalSemaphoreValueCount = after.count();
    timeline.pSignalSemaphoreValues = after.values.data();
    VkSubmitInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = before.timeline || after.timeline ? &timeline : nullptr;
    info.waitSemaphoreCount = before.count();
    info.pWaitSemaphores = before.semaphores.data();
    info.pWaitDstStageMask = before.stages.data();
    info.commandBufferCount = 1;
    info.pCommandBuffers = &buffer;
    info.signalSemaphoreCount = after.count();
    info.pSignalSemaphores = after.semaphores.data();
    submit(info, fence);
  }
  // Without semaphores.
  void submit_alone(uint64_t commands, uint64_t fence) {
    const VkCommandBuffer buffer = (VkCommandBuffer)commands;
    VkSubmitInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &buffer;
    submit(info, fence);
  }

 private:
  void submit(const VkSubmitInfo& info, uint64_t fence) {
    std::lock_guard<std::mutex> guard(mutex_);
    context_->run("vkQueueSubmit", [&] { return context_->fn.QueueSubmit(handle_, 1, &info, (VkFence)fence); });
  }

  std::shared_ptr<Context> context_;
  VkQueue handle_;
  std::mutex mutex_;
};

}  // namespace etvk
#endif
