// Compute pipelines: shader modules, layouts, descriptor pools, the pipelines and their cache.
#ifndef ETARENA_VK_PIPELINES_H
#define ETARENA_VK_PIPELINES_H

#include <algorithm>
#include <array>
#include <optional>

#include "vk_context.h"

namespace etvk {

// Letters that name what a shader binds.
enum BindingLetter : char { kStorageBuffer = 'b', kStorageImage = 'i', kTexture = 't' };

inline VkDescriptorType descriptor_type(char letter) {
  if (letter == kStorageBuffer) return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  return letter == kStorageImage ? VK_DESCRIPTOR_TYPE_STORAGE_IMAGE : VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
}

class ShaderModule : public Owned<VkShaderModule, kShaderModule, &DeviceFunctions::DestroyShaderModule> {
 public:
  ShaderModule(const std::shared_ptr<Context>& context, const std::vector<uint32_t>& words)
      : Owned(context, create(*context, words)) {}

 private:
  static VkShaderModule create(Context& context, const std::vector<uint32_t>& words) {
    VkShaderModuleCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    info.codeSize = words.size() * sizeof(uint32_t);
    info.pCode = words.data();
    return create_object<VkShaderModule>(context, "vkCreateShaderModule", context.fn.CreateShaderModule, info);
  }
};

// Linear between texels, clamped at the edges.
class Sampler : public Owned<VkSampler, kSampler, &DeviceFunctions::DestroySampler> {
 public:
  explicit Sampler(const std::shared_ptr<Context>& context) : Owned(context, create(*context)) {}

 private:
  static VkSampler create(Context& context) {
    VkSamplerCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO;
    info.magFilter = info.minFilter = VK_FILTER_LINEAR;
    info.addressModeU = info.addressModeV = info.addressModeW = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE;
    return create_object<VkSampler>(context, "vkCreateSampler", context.fn.CreateSampler, info);
  }
};

// One letter per binding, from 0 on.
class SetLayout : public Owned<VkDescriptorSetLayout, kSetLayout, &DeviceFunctions::DestroyDescriptorSetLayout> {
 public:
  SetLayout(const std::shared_ptr<Context>& context, const std::string& letters, VkSampler sampler)
      : Owned(context, create(*context, letters, sampler)) {}

 private:
  static VkDescriptorSetLayout create(Context& context, const std::string& letters, VkSampler sampler) {
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (char letter : letters) {
      VkDescriptorSetLayoutBinding binding = {};
      binding.binding = static_cast<uint32_t>(bindings.size());
      binding.descriptorType = descriptor_type(letter);
      binding.descriptorCount = 1;
      binding.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
      binding.pImmutableSamplers = letter == kTexture ? &sampler : nullptr;
      bindings.push_back(binding);
    }
    VkDescriptorSetLayoutCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    info.bindingCount = static_cast<uint32_t>(bindings.size());
    info.pBindings = bindings.data();
    return create_object<VkDescriptorSetLayout>(context, "vkCreateDescriptorSetLayout",
                                                context.fn.CreateDescriptorSetLayout, info);
  }
};

class PipelineLayout : public Owned<VkPipelineLayout, kPipelineLayout, &DeviceFunctions::DestroyPipelineLayout> {
 public:
  PipelineLayout(const std::shared_ptr<Context>& context, VkDescriptorSetLayout set, uint32_t push_bytes)
      : Owned(context, create(*context, set, push_bytes)) {}

 private:
  static VkPipelineLayout create(Context& context, VkDescriptorSetLayout set, uint32_t push_bytes) {
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
    VkPipelineLayoutCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    info.setLayoutCount = 1;
    info.pSetLayouts = &set;
    info.pushConstantRangeCount = push_bytes != 0 ? 1 : 0;
    info.pPushConstantRanges = &range;
    return create_object<VkPipelineLayout>(context, "vkCreatePipelineLayout", context.fn.CreatePipelineLayout, info);
  }
};

// What the driver keeps of compiled pipelines; used by several threads at a time.
class PipelineCache : public Owned<VkPipelineCache, kPipelineCache, &DeviceFunctions::DestroyPipelineCache> {
 public:
  // `data` is empty or has a header that fits this device.
  PipelineCache(const std::shared_ptr<Context>& context, const std::string& data)
      : Owned(context, create(*context, data)) {}

  std::string data() {
    std::string out;
    VkResult result = VK_INCOMPLETE;
    while (result == VK_INCOMPLETE) {  // it may grow between the two calls
      size_t size = 0;
      context_->run("vkGetPipelineCacheData",
                    [&] { return context_->fn.GetPipelineCacheData(context_->device(), handle_, &size, nullptr); });
      out.resize(size);
      result = context_->run("vkGetPipelineCacheData", [&] {
        return context_->fn.GetPipelineCacheData(context_->device(), handle_, &size, &out[0]);
      });
      out.resize(size);
    }
    return out;
  }

 private:
  static VkPipelineCache create(Context& context, const std::string& data) {
    VkPipelineCacheCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    info.initialDataSize = data.size();
    info.pInitialData = data.data();
    return create_object<VkPipelineCache>(context, "vkCreatePipelineCache", context.fn.CreatePipelineCache, info);
  }
};

// Values of specialization constants, each of 32 bits.
struct Constant {
  uint32_t id, value;
};

class Pipeline : public Owned<VkPipeline, kPipeline, &DeviceFunctions::DestroyPipeline> {
 public:
  Pipeline(const std::shared_ptr<Context>& context, VkShaderModule module, VkPipelineLayout layout,
           const std::vector<Constant>& constants, VkPipelineCache cache)
      : Owned(context, create(*context, module, layout, constants, cache)) {}

 private:
  static VkPipeline create(Context& context, VkShaderModule module, VkPipelineLayout layout,
                           const std::vector<Constant>& constants, VkPipelineCache cache) {
    std::vector<VkSpecializationMapEntry> entries;
    for (const Constant& constant : constants)
      entries.push_back({constant.id,
                         static_cast<uint32_t>(entries.size() * sizeof(Constant) + offsetof(Constant, value)),
                         sizeof(uint32_t)});
    const VkSpecializationInfo special = {static_cast<uint32_t>(entries.size()), entries.data(),
                                          constants.size() * sizeof(Constant), constants.data()};
    VkComputePipelineCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = entries.empty() ? nullptr : &special;
    info.layout = layout;
    info.basePipelineIndex = -1;
    VkPipeline handle = VK_NULL_HANDLE;
    context.run("vkCreateComputePipelines",
                [&] { return context.fn.CreateComputePipelines(context.device(), cache, 1, &info, nullptr, &handle); });
    return handle;
  }
};

// How many descriptors of each letter a set has.
using DescriptorCounts = std::array<uint32_t, 3>;
inline constexpr std::array<char, 3> kLetters = {kStorageBuffer, kStorageImage, kTexture};

inline DescriptorCounts count_letters(const std::string& letters) {
  DescriptorCounts counts = {};
  for (size_t i = 0; i < kLetters.size(); ++i)
    counts[i] = static_cast<uint32_t>(std::count(letters.begin(), letters.end(), kLetters[i]));
  return counts;
}

// A compute shader made ready: what it binds, and the pipeline.
class ComputePipeline {
 public:
  ComputePipeline(const std::shared_ptr<Context>& context, const std::vector<uint32_t>& words,
                  const std::string& letters, uint32_t push_bytes, const std::vector<Constant>& constants,
                  uint64_t cache)
      : letters_(letters),
        counts_(count_letters(letters)),
        push_bytes_(push_bytes),
        sampler_(letters.find(kTexture) == std::string::npos ? std::nullopt
                                                             : std::optional<Sampler>(std::in_place, context)),
        set_(context, letters, sampler_ ? sampler_->handle() : VK_NULL_HANDLE),
        layout_(context, set_.handle(), push_bytes),
        pipeline_(context, ShaderModule(context, words).handle(), layout_.handle(), constants, (VkPipelineCache)cache) {
  }

  uint64_t number() const { return pipeline_.number(); }
  const std::string& letters() const { return letters_; }
  const DescriptorCounts& counts() const { return counts_; }
  uint32_t push_bytes() const { return push_bytes_; }
  VkDescriptorSetLayout set() const { return set_.handle(); }
  VkPipelineLayout layout() const { return layout_.handle(); }
  VkPipeline pipeline() const { return pipeline_.handle(); }

 private:
  std::string letters_;
  DescriptorCounts counts_;
  uint32_t push_bytes_;
  std::optional<Sampler> sampler_;  // part of the layout
  SetLayout set_;
  PipelineLayout layout_;
  Pipeline pipeline_;
};

}  // namespace etvk
#endif
