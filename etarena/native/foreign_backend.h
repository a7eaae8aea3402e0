// Delegates behind function tables as ExecuTorch backends.
//
// ExecuTorch has room for 16 backends, keeps the name's pointer and forgets none of them: each name gets one object
// that lives for ever and points at what is registered under it now.
#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "instance.h"
#include "method_access.h"
#include "runtime_guard.h"

namespace etarena {

// Where the load in progress on this thread wants the delegates it makes; null when the load is not etarena's.
inline thread_local std::vector<std::shared_ptr<Instance>>* expected_instances = nullptr;

class ForeignBackend final : public executorch::runtime::BackendInterface {
 public:
  using Error = executorch::runtime::Error;
  using Handle = std::shared_ptr<Instance>;  // what ExecuTorch is given points at one

  explicit ForeignBackend(std::string name) : name_(std::move(name)) {}

  const char* name() const { return name_.c_str(); }

  bool is_available() const override { return current() != nullptr; }

  // Gives what was registered before; null takes the registration back.
  std::shared_ptr<const Registration> exchange(std::shared_ptr<const Registration> registration) {
    const std::lock_guard<std::mutex> lock(mutex_);
    current_.swap(registration);
    return registration;
  }

  std::shared_ptr<const Registration> current() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return current_;
  }

  executorch::runtime::Result<executorch::runtime::DelegateHandle*> init(
      executorch::runtime::BackendInitContext&, executorch::runtime::FreeableBuffer* processed,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> specs) const override {
    auto instance = std::make_shared<Instance>();
    instance->registration = current();
    if (instance->registration == nullptr) {  // taken back since is_available()
      ET_LOG(Error, "Backend %s is not available.", name());
      return Error::NotFound;
    }
    std::vector<etarena_spec> given;
    for (const auto& spec : specs) given.push_back({spec.key, spec.value.buffer, spec.value.nbytes});
    etarena_error error;
    error.message[0] = 0;
    const etarena_delegate& table = instance->table();
    const etarena_status status = table.init(table.context, processed->data(), processed->size(), given.data(),
                                             static_cast<uint32_t>(given.size()), &instance->handle, &error);
    if (status != ETARENA_OK) {
      tell(*instance, "init", text_of(error, status), expected_instances != nullptr);
      return Error::DelegateInvalidCompatibility;
    }
    instance->open = true;
    if (expected_instances != nullptr) expected_instances->push_back(instance);
    return new Handle(std::move(instance));
  }

  Error execute(executorch::runtime::BackendExecutionContext&, executorch::runtime::DelegateHandle* handle,
                executorch::runtime::Span<executorch::runtime::EValue*> values) const override {
    Instance& self = **static_cast<Handle*>(handle);
    const int32_t instruction =
        self.method == nullptr ? -1 : static_cast<int32_t>(next_instruction(*static_cast<const Method*>(self.method)));
    const char* step = "execute";
    fill(self, values);
    std::string reason;
    if (self.table().output_sizes != nullptr && self.place_of(instruction) == nullptr) {
      step = "output_shapes";
      reason = resize(self, values);
    }
    if (reason.empty()) reason = call(self, instruction, &step);
    if (reason.empty()) return Error::Ok;
    tell(self, step, reason, self.method != nullptr);
    return Error::Internal;
  }

  void destroy(executorch::runtime::DelegateHandle* handle) const override {
    Handle* const held = static_cast<Handle*>(handle);
    if (held == nullptr) return;
    (*held)->close();
    delete held;
  }

 private:
  static void fill(Instance& self, executorch::runtime::Span<executorch::runtime::EValue*> values) {
    self.arguments.resize(values.size());
    self.wrapped.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) fill_at(self, i, *values[i]);
  }

  static void fill_at(Instance& self, size_t position, const EValue& value) {
    fill_one(self.arguments[position], value);
    if (self.arguments[position].device.type != 0 && !self.planned_devices) wrap(self, position);
  }

  // Files of ExecuTorch's own have plain addresses where etarena's have resources.
  static void wrap(Instance& self, size_t position) {
    etarena_argument& argument = self.arguments[position];
    etarena_resource& resource = self.wrapped[position];
    resource = etarena_resource{};
    resource.struct_size = sizeof resource;
    resource.kind = ETARENA_RESOURCE_DEVICE_POINTER;
    resource.handle = reinterpret_cast<uint64_t>(argument.data);
    resource.nbytes = argument.nbytes;
    argument.data = &resource;
  }

  static void fill_one(etarena_argument& argument, const EValue& value) {
    argument = etarena_argument{};
    argument.struct_size = sizeof argument;
    if (value.isTensor()) {
      const auto* const tensor = value.toTensor().unsafeGetTensorImpl();
      argument.kind = ETARENA_TENSOR;
      argument.dtype = static_cast<int32_t>(tensor->scalar_type());
      argument.rank = static_cast<int32_t>(tensor->dim());
      argument.sizes = tensor->sizes().data();
      argument.strides = tensor->strides().data();
      argument.dim_order = tensor->dim_order().data();
      argument.data = tensor->mutable_data();
      argument.nbytes = tensor->nbytes();
      argument.device = {static_cast<int32_t>(tensor->device_type()), tensor->device_index()};
      if (argument.device.index < 0) argument.device.index = 0;
    } else if (value.isInt()) {
      argument.kind = ETARENA_INT;
      argument.integer = value.toInt();
    } else if (value.isDouble()) {
      argument.kind = ETARENA_DOUBLE;
      argument.number = value.toDouble();
    } else if (value.isBool()) {
      argument.kind = ETARENA_BOOL;
      argument.integer = value.toBool() ? 1 : 0;
    }
  }

  // Without a plan, outputs have their upper bounds until they are told their sizes.
  static std::string resize(Instance& self, executorch::runtime::Span<executorch::runtime::EValue*> values) {
    std::vector<int32_t> sizes;
    std::string reason;
    const uint32_t count = static_cast<uint32_t>(self.arguments.size());
    if (!ask_sizes(self, self.arguments.data(), count, &sizes, &reason)) return reason;
    const int32_t* next = sizes.data();
    for (uint32_t i = 0; i < count; ++i) {
      if (self.arguments[i].kind != ETARENA_TENSOR) continue;
      const size_t rank = static_cast<size_t>(self.arguments[i].rank);
      if (!std::equal(next, next + rank, self.arguments[i].sizes)) {
        if (executorch::runtime::resize_tensor(values[i]->toTensor(), {next, rank}) != Error::Ok) {
          return "argument " + std::to_string(i) + " cannot have the shape that it gives it";
        }
        fill_at(self, i, *values[i]);
      }
      next += rank;
    }
    return reason;
  }

  // `ours`: the call is one of etarena's, which raises what is told here.
  static void tell(const Instance& self, const char* step, const std::string& reason, bool ours) {
    const Registration& registration = *self.registration;
    if (ours && current_call != nullptr) {
      current_call->backend = registration.name;
      current_call->step = step;
      current_call->reason = reason;
      return;
    }
    ET_LOG(Error, "delegate %s: %s: %s", registration.name.c_str(), step, reason.c_str());
    if (registration.report != nullptr) registration.report();
  }

  const std::string name_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Registration> current_;
};

enum class Registered : int { Done, Taken, Stock, Full };

inline std::map<std::string, ForeignBackend*>& foreign_backends() {
  static auto* const backends = new std::map<std::string, ForeignBackend*>();
  return *backends;
}

// Called with the GIL, one at a time.
inline Registered register_foreign(std::shared_ptr<const Registration> registration) {
  auto& backends = foreign_backends();
  const auto known = backends.find(registration->name);
  if (known != backends.end()) {
    if (known->second->is_available()) return Registered::Taken;
    known->second->exchange(std::move(registration));
    return Registered::Done;
  }
  if (executorch::runtime::get_backend_class(registration->name.c_str()) != nullptr) return Registered::Stock;
  auto* const backend = new ForeignBackend(registration->name);
  if (executorch::runtime::register_backend({backend->name(), backend}) != executorch::runtime::Error::Ok) {
    delete backend;
    return Registered::Full;
  }
  backends[registration->name] = backend;
  backend->exchange(std::move(registration));
  return Registered::Done;
}

inline bool unregister_foreign(const std::string& name) {
  const auto known = foreign_backends().find(name);
  return known != foreign_backends().end() && known->second->exchange(nullptr) != nullptr;
}

inline std::vector<std::string> registered_backends() {
  std::vector<std::string> names;
  for (size_t i = 0; i < executorch::runtime::get_num_registered_backends(); ++i) {
    const auto name = executorch::runtime::get_backend_name(i);
    if (name.ok()) names.emplace_back(*name);
  }
  return names;
}

}  // namespace etarena
