// The loader, an instance, and the messages of its validation layer.
#ifndef ETARENA_VK_INSTANCE_H
#define ETARENA_VK_INSTANCE_H

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "vk_failure.h"

namespace etvk {

struct Message {
  uint32_t severity;
  std::string id;
  std::string text;
};

// What the validation layer said so far. Filled from any thread, without the GIL.
class Messages {
 public:
  void add(Message message) {
    std::lock_guard<std::mutex> guard(mutex_);
    messages_.push_back(std::move(message));
  }
  std::vector<Message> copy() {
    std::lock_guard<std::mutex> guard(mutex_);
    return messages_;
  }
  void clear() {
    std::lock_guard<std::mutex> guard(mutex_);
    messages_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<Message> messages_;
};

inline VKAPI_ATTR VkBool32 VKAPI_CALL collect(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                              VkDebugUtilsMessageTypeFlagsEXT,
                                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* messages) {
  const char* id = data->pMessageIdName ? data->pMessageIdName : "";
  static_cast<Messages*>(messages)->add({static_cast<uint32_t>(severity), id, data->pMessage ? data->pMessage : ""});
  return VK_FALSE;
}

// Opens libvulkan; it stays open, because drivers do not like to be unloaded.
inline GlobalFunctions open_loader(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Missing("Vulkan's loader cannot be opened (" + std::string(reason ? reason : path) +
                  "): install it with 'apt-get install libvulkan1' and a driver such as 'mesa-vulkan-drivers', or set "
                  "ETARENA_LIBVULKAN to the path of libvulkan.so.1");
  }
  GlobalFunctions functions;
  functions.GetInstanceProcAddr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (functions.GetInstanceProcAddr == nullptr)
    throw Missing(path + " has no vkGetInstanceProcAddr: it is no libvulkan");
#define ETVK_FETCH(name) \
  functions.name = reinterpret_cast<PFN_vk##name>(functions.GetInstanceProcAddr(VK_NULL_HANDLE, "vk" #name));
  ETVK_GLOBAL_FUNCTIONS(ETVK_FETCH)
#undef ETVK_FETCH
  if (functions.CreateInstance == nullptr || functions.EnumerateInstanceVersion == nullptr)
    throw Missing(path + " is a Vulkan 1.0 loader; version 1.1 or newer is needed");
  return functions;
}

// One VkInstance, made here or the application's.
class Instance {
 public:
  // With `validation`, the Khronos layer's core and synchronisation checks, collected in messages().
  Instance(const GlobalFunctions& global, bool validation) : global_(global), messages_(new Messages) {
    create(validation);
  }
  // The application's: `handle` is used and never destroyed.
  Instance(const GlobalFunctions& global, uint64_t handle, uint32_t api_version)
      : global_(global), messages_(new Messages), handle_((VkInstance)handle), api_version_(api_version) {
    fetch();
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance() {
    if (!owned_ || leaked_) return;
    if (messenger_ != VK_NULL_HANDLE) fn.DestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
    fn.DestroyInstance(handle_, nullptr);
  }

  VkInstance handle() const { return handle_; }
  uint64_t number() const { return (uint64_t)handle_; }
  uint32_t api_version() const { return api_version_; }
  Messages& messages() { return *messages_; }
  void leak() { leaked_ = true; }

  std::vector<VkPhysicalDevice> physical_devices() const {
    uint32_t count = 0;
    check(fn.EnumeratePhysicalDevices(handle_, &count, nullptr), "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> devices(count);
    check(fn.EnumeratePhysicalDevices(handle_, &count, devices.data()), "vkEnumeratePhysicalDevices");
    devices.resize(count);
    return devices;
  }
  std::vector<uint64_t> physical_device_numbers() const {
    std::vector<uint64_t> numbers;
    for (VkPhysicalDevice device : physical_devices()) numbers.push_back((uint64_t)device);
    return numbers;
  }

  InstanceFunctions fn;

 private:
  static void check(VkResult result, const char* call) {
    if (result < 0) throw Failure(result, call, "");
  }

  bool layer_is_there(const char* name) const {
    uint32_t count = 0;
    global_.EnumerateInstanceLayerProperties(&count, nullptr);
    std::vector<VkLayerProperties> layers(count);
    global_.EnumerateInstanceLayerProperties(&count, layers.data());
    for (const VkLayerProperties& layer : layers)
      if (std::strcmp(layer.layerName, name) == 0) return true;
    return false;
  }

  void create(bool validation) {
    static const char* kLayer = "VK_LAYER_KHRONOS_validation";
    static const char* kExtensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    if (validation && !layer_is_there(kLayer))
      throw Missing("validation=True needs the layer " + std::string(kLayer) +
                    ": install it with 'apt-get install vulkan-validationlayers'");
    VkApplicationInfo application = {};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pEngineName = "etarena";
    application.apiVersion = api_version_ = VK_API_VERSION_1_2;
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info();
    const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT features = {};
    features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    features.pNext = &messenger;
    features.enabledValidationFeatureCount = 1;
    features.pEnabledValidationFeatures = enabled;
    VkInstanceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    if (validation) {
      info.pNext = &features;
      info.enabledLayerCount = 1;
      info.ppEnabledLayerNames = &kLayer;
      info.enabledExtensionCount = 2;
      info.ppEnabledExtensionNames = kExtensions;
    }
    check(global_.CreateInstance(&info, nullptr, &handle_), "vkCreateInstance");
    owned_ = true;
    fetch();
    if (validation && fn.CreateDebugUtilsMessengerEXT != nullptr)
      check(fn.CreateDebugUtilsMessengerEXT(handle_, &messenger, nullptr, &messenger_),
            "vkCreateDebugUtilsMessengerEXT");
  }

  VkDebugUtilsMessengerCreateInfoEXT messenger_info() const {
    VkDebugUtilsMessengerCreateInfoEXT info = {};
    info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    info.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    info.pfnUserCallback = collect;
    info.pUserData = messages_.get();
    return info;
  }

  void fetch() {
    std::string missing;
#define ETVK_FETCH(name) fn.name = reinterpret_cast<PFN_vk##name>(global_.GetInstanceProcAddr(handle_, "vk" #name));
#define ETVK_FETCH_REQUIRED(name) ETVK_FETCH(name) if (fn.name == nullptr) missing = "vk" #name;
    ETVK_INSTANCE_FUNCTIONS(ETVK_FETCH_REQUIRED)
    ETVK_INSTANCE_EXTENSIONS(ETVK_FETCH)
#undef ETVK_FETCH_REQUIRED
#undef ETVK_FETCH
    if (missing.empty()) return;
    if (owned_ && fn.DestroyInstance != nullptr) fn.DestroyInstance(handle_, nullptr);
    throw Missing("the VkInstance has no " + missing + ": make it with apiVersion 1.1 or newer");
  }

  GlobalFunctions global_;
  std::unique_ptr<Messages> messages_;
  VkInstance handle_ = VK_NULL_HANDLE;
  uint32_t api_version_ = 0;
  bool owned_ = false;
  std::atomic<bool> leaked_{false};
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

}  // namespace etvk
#endif
