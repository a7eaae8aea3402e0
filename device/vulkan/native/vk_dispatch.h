// Descriptor pools, and dispatches recorded into a command buffer.
#ifndef ETARENA_VK_DISPATCH_H
#define ETARENA_VK_DISPATCH_H

#include "vk_pipelines.h"

namespace etvk {

class DescriptorPool : public Owned<VkDescriptorPool, kDescriptorPool, &DeviceFunctions::DestroyDescriptorPool> {
 public:
  DescriptorPool(const std::shared_ptr<Context>& context, uint32_t sets, const DescriptorCounts& counts)
      : Owned(context, create(*context, sets, counts)), sets_(sets), counts_(counts) {
    refill();
  }

  // A null handle: it has not as many left.
  VkDescriptorSet take(VkDescriptorSetLayout layout, const DescriptorCounts& wanted) {
    if (sets_left_ == 0) return VK_NULL_HANDLE;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] > left_[i]) return VK_NULL_HANDLE;
    VkDescriptorSetAllocateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    info.descriptorPool = handle_;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    context_->run("vkAllocateDescriptorSets",
                  [&] { return context_->fn.AllocateDescriptorSets(context_->device(), &info, &set); });
    --sets_left_;
    for (size_t i = 0; i < wanted.size(); ++i) left_[i] -= wanted[i];
    return set;
  }
  // Takes all sets back.
  void reset() {
    if (sets_left_ == sets_) return;
    context_->run("vkResetDescriptorPool",
                  [&] { return context_->fn.ResetDescriptorPool(context_->device(), handle_, 0); });
    refill();
  }

 private:
  static VkDescriptorPool create(Context& context, uint32_t sets, const DescriptorCounts& counts) {
    std::vector<VkDescriptorPoolSize> sizes;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i] != 0) sizes.push_back({descriptor_type(kLetters[i]), counts[i]});
    VkDescriptorPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets;
    info.poolSizeCount = static_cast<uint32_t>(sizes.size());
    info.pPoolSizes = sizes.data();
    return create_object<VkDescriptorPool>(context, "vkCreateDescriptorPool", context.fn.CreateDescriptorPool, info);
  }
  void refill() {
    sets_left_ = sets_;
    left_ = counts_;
  }

  uint32_t sets_, sets_left_ = 0;
  DescriptorCounts counts_, left_ = {};
};

// What is bound at one place: bytes of a buffer, or an image view in a layout.
struct Bound {
  uint64_t handle, offset, nbytes;
  uint32_t layout;
};

struct Groups {
  uint32_t x, y, z;
};

// Records the dispatches of one command buffer, whose descriptor sets it keeps.
class Dispatcher {
 public:
  explicit Dispatcher(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  // The command buffer is recorded anew.
  void begin() {
    for (DescriptorPool& pool : pools_) pool.reset();
    current_ = 0;
  }

  void dispatch(uint64_t number, const ComputePipeline& pipeline, const std::vector<Bound>& bound, const char* push,
                const Groups& groups) {
    const VkCommandBuffer commands = (VkCommandBuffer)number;
    const VkDescriptorSet set = descriptor_set(pipeline);
    write(set, pipeline.letters(), bound);
    // Whoever records commands of their own between dispatches may bind others: bind every time.
    context_->fn.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline());
    context_->fn.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout(), 0, 1, &set, 0,
                                       nullptr);
    if (pipeline.push_bytes() != 0)
      context_->fn.CmdPushConstants(commands, pipeline.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, pipeline.push_bytes(),
                                    push);
    context_->fn.CmdDispatch(commands, groups.x, groups.y, groups.z);
  }

 private:
  static constexpr uint32_t kSets = 128;  // of one pool

  VkDescriptorSet descriptor_set(const ComputePipeline& pipeline) {
    const DescriptorCounts& wanted = pipeline.counts();
    for (; current_ < pools_.size(); ++current_)
      if (VkDescriptorSet set = pools_[current_].take(pipeline.set(), wanted)) return set;
    const DescriptorCounts counts = {std::max(4 * kSets, wanted[0]), std::max(kSets / 2, wanted[1]),
                                     std::max(kSets / 2, wanted[2])};
    pools_.emplace_back(context_, kSets, counts);
    return pools_.back().take(pipeline.set(), wanted);
  }

  void write(VkDescriptorSet set, const std::string& letters, const std::vector<Bound>& bound) {
    writes_.clear();
    buffers_.resize(bound.size());
    images_.resize(bound.size());
    for (uint32_t i = 0; i < bound.size(); ++i) {
      VkWriteDescriptorSet one = {};
      one.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      one.dstSet = set;
      one.dstBinding = i;
      one.descriptorCount = 1;
      one.descriptorType = descriptor_type(letters[i]);
      if (letters[i] == kStorageBuffer) {
        buffers_[i] = {(VkBuffer)bound[i].handle, bound[i].offset, bound[i].nbytes};
        one.pBufferInfo = &buffers_[i];
      } else {
        images_[i] = {VK_NULL_HANDLE, (VkImageView)bound[i].handle, static_cast<VkImageLayout>(bound[i].layout)};
        one.pImageInfo = &images_[i];
      }
      writes_.push_back(one);
    }
    context_->fn.UpdateDescriptorSets(context_->device(), static_cast<uint32_t>(writes_.size()), writes_.data(), 0,
                                      nullptr);
  }

  std::shared_ptr<Context> context_;
  std::vector<DescriptorPool> pools_;
  size_t current_ = 0;                        // pools before it have nothing left
  std::vector<VkWriteDescriptorSet> writes_;  // kept to save allocations
  std::vector<VkDescriptorBufferInfo> buffers_;
  std::vector<VkDescriptorImageInfo> images_;
};

}  // namespace etvk
#endif
