// ExecuTorch's registry of device allocators has one slot for each type, takes each once, and aborts on a second. One
// object for each slot therefore stands there for ever and passes calls on to the table that is registered now.
#pragma once

#include <executorch/runtime/core/device_allocator.h>

#include <mutex>
#include <unordered_map>

#include "etarena.h"

namespace etarena {

namespace rt = executorch::runtime;

// device/device.py gives types that ExecuTorch does not know the numbers of DLPack. When it knows more, look there.
static_assert(rt::etensor::kNumDeviceTypes == 2, "ExecuTorch has new device types: compare with etarena's DeviceType");

class ForwardingAllocator final : public rt::DeviceAllocator {
 public:
  explicit ForwardingAllocator(rt::etensor::DeviceType type) : type_(type) {}

  // Null: none is registered. A table stays valid for ever, as memory of it may come back at any time.
  void use(const etarena_device_allocator* table) {
    std::lock_guard<std::mutex> guard(lock_);
    table_ = table;
  }

  rt::Result<void*> allocate(size_t nbytes, rt::etensor::DeviceIndex index, size_t alignment) override {
    const etarena_device_allocator* table = current();
    if (table == nullptr) return rt::Error::NotFound;
    if (index < 0 || static_cast<uint32_t>(index) >= table->device_count) return rt::Error::InvalidArgument;
    etarena_resource resource = {};
    resource.struct_size = sizeof(resource);
    etarena_error error;
    error.message[0] = 0;
    etarena_status status = table->allocate(table->context, index, nbytes, alignment, &resource, &error);
    if (status != ETARENA_OK) return code_of(status);
    // The runtime computes addresses inside the memory, so it must be one of those that are addresses.
    const bool pointer = resource.kind == ETARENA_RESOURCE_HOST || resource.kind == ETARENA_RESOURCE_DEVICE_POINTER;
    const uint64_t address = resource.handle + resource.offset;
    if (!pointer || address == 0 || (alignment != 0 && address % alignment != 0) || resource.nbytes < nbytes) {
      table->deallocate(table->context, index, &resource);
      return pointer ? rt::Error::MemoryAllocationFailed : rt::Error::NotSupported;
    }
    std::lock_guard<std::mutex> guard(lock_);
    taken_[reinterpret_cast<void*>(address)] = {table, resource};
    return reinterpret_cast<void*>(address);
  }

  void deallocate(void* address, rt::etensor::DeviceIndex index) override {
    Taken taken;
    {
      std::lock_guard<std::mutex> guard(lock_);
      auto found = taken_.find(address);
      if (found == taken_.end()) return;
      taken = found->second;
      taken_.erase(found);
    }
    taken.table->deallocate(taken.table->context, index, &taken.resource);
  }

  rt::Error copy_host_to_device(void* to, const void* from, size_t nbytes, rt::etensor::DeviceIndex index) override {
    Taken taken;
    uint64_t offset;
    etarena_error error;
    error.message[0] = 0;
    if (!find(to, nbytes, &taken, &offset)) return rt::Error::InvalidArgument;
    return code_of(
        taken.table->copy_to_device(taken.table->context, index, &taken.resource, offset, from, nbytes, &error));
  }

  rt::Error copy_device_to_host(void* to, const void* from, size_t nbytes, rt::etensor::DeviceIndex index) override {
    Taken taken;
    uint64_t offset;
    etarena_error error;
    error.message[0] = 0;
    if (!find(from, nbytes, &taken, &offset)) return rt::Error::InvalidArgument;
    return code_of(taken.table->copy_to_host(taken.table->context, index, to, &taken.resource, offset, nbytes, &error));
  }

  rt::etensor::DeviceType device_type() const override { return type_; }

 private:
  struct Taken {
    const etarena_device_allocator* table;
    etarena_resource resource;
  };

  const etarena_device_allocator* current() {
    std::lock_guard<std::mutex> guard(lock_);
    return table_;
  }

  // The block that holds [address, address + nbytes).
  bool find(const void* address, size_t nbytes, Taken* out, uint64_t* offset) {
    std::lock_guard<std::mutex> guard(lock_);
    const uint64_t begin = reinterpret_cast<uint64_t>(address);
    for (const auto& entry : taken_) {
      const uint64_t start = reinterpret_cast<uint64_t>(entry.first);
      const uint64_t size = entry.second.resource.nbytes;
      if (begin >= start && begin - start <= size && nbytes <= size - (begin - start)) {
        *out = entry.second;
        *offset = begin - start;
        return true;
      }
    }
    return false;
  }

  static rt::Error code_of(etarena_status status) {
    switch (status) {
      case ETARENA_OK:
        return rt::Error::Ok;
      case ETARENA_INVALID_ARGUMENT:
        return rt::Error::InvalidArgument;
      case ETARENA_NOT_SUPPORTED:
        return rt::Error::NotSupported;
      case ETARENA_OUT_OF_MEMORY:
        return rt::Error::MemoryAllocationFailed;
      default:
        return rt::Error::AccessFailed;
    }
  }

  const rt::etensor::DeviceType type_;
  std::mutex lock_;
  const etarena_device_allocator* table_ = nullptr;
  std::unordered_map<void*, Taken> taken_;
};

// Let ExecuTorch take memory of a type from a table, or from none. False: the slot is another's, or there is none.
inline bool bridge_allocator(int type, const etarena_device_allocator* table) {
  if (type < 0 || static_cast<size_t>(type) >= rt::etensor::kNumDeviceTypes) return false;
  static ForwardingAllocator* forwarders[rt::etensor::kNumDeviceTypes] = {};  // as long-lived as the registry
  const auto slot = static_cast<rt::etensor::DeviceType>(type);
  if (forwarders[type] == nullptr) {
    if (rt::get_device_allocator(slot) != nullptr) return false;
    forwarders[type] = new ForwardingAllocator(slot);
    rt::register_device_allocator(forwarders[type]);
  }
  forwarders[type]->use(table);
  return true;
}

// What the runtime itself does with a slot, for the tests. Null, false: it refused.
inline void* bridged_allocate(int type, int index, size_t nbytes, size_t alignment) {
  rt::DeviceAllocator* allocator = rt::get_device_allocator(static_cast<rt::etensor::DeviceType>(type));
  if (allocator == nullptr) return nullptr;
  auto found = allocator->allocate(nbytes, static_cast<rt::etensor::DeviceIndex>(index), alignment);
  return found.ok() ? found.get() : nullptr;
}

inline void bridged_free(int type, int index, void* address) {
  rt::DeviceAllocator* allocator = rt::get_device_allocator(static_cast<rt::etensor::DeviceType>(type));
  if (allocator != nullptr) allocator->deallocate(address, static_cast<rt::etensor::DeviceIndex>(index));
}

inline bool bridged_copy(int type, int index, void* to, const void* from, size_t nbytes, bool to_device) {
  rt::DeviceAllocator* allocator = rt::get_device_allocator(static_cast<rt::etensor::DeviceType>(type));
  if (allocator == nullptr) return false;
  const auto place = static_cast<rt::etensor::DeviceIndex>(index);
  return (to_device ? allocator->copy_host_to_device(to, from, nbytes, place)
                    : allocator->copy_device_to_host(to, from, nbytes, place)) == rt::Error::Ok;
}

}  // namespace etarena
