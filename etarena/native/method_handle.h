// Owners of ExecuTorch's Program and Method, and the binding of tensors to planned memory.
#pragma once

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreign_backend.h"
#include "method_access.h"
#include "plan_backend.h"
#include "runtime_guard.h"
#include "tensor_view.h"
#include "told_numbers.h"
#include "transfers.h"

namespace etarena {

using executorch::runtime::Error;
using executorch::runtime::etensor::Tensor;
using executorch::runtime::etensor::TensorImpl;

// What a file says of one method before it is loaded.
struct MethodDescription {
  std::vector<int64_t> planned_bytes;  // sizes of the buffers planned ahead of time; empty when planned at run time
  std::vector<int32_t> planned_types;  // of the device that each is on
  std::vector<int32_t> planned_indices;
  std::vector<std::string> backends;
  size_t instructions = 0;
};

// A program over bytes that the caller keeps alive.
class ProgramHandle {
 public:
  ProgramHandle(const void* data, size_t size) : loader_(data, size) {}

  bool open(Failure* failure) {
    return guarded(failure, [&] {
      auto loaded =
          executorch::runtime::Program::load(&loader_, executorch::runtime::Program::Verification::InternalConsistency);
      if (!loaded.ok()) return loaded.error();
      program_.emplace(std::move(*loaded));
      return Error::Ok;
    });
  }

  executorch::runtime::Program& program() { return *program_; }

  size_t methods() const { return program_->num_methods(); }
  bool method_name(size_t position, std::string* name, Failure* failure) const {
    return guarded(failure, [&] {
      auto found = program_->get_method_name(position);
      if (!found.ok()) return found.error();
      *name = *found;
      return Error::Ok;
    });
  }

  bool describe(const char* name, MethodDescription* out, Failure* failure) const {
    return guarded(failure, [&] {
      auto meta = program_->method_meta(name);
      if (!meta.ok()) return meta.error();
      out->instructions = meta->num_instructions();
      for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
        auto bytes = meta->memory_planned_buffer_size(i);
        auto device = meta->memory_planned_buffer_device(i);
        if (!bytes.ok() || !device.ok()) return Error::InvalidProgram;
        out->planned_bytes.push_back(*bytes);
        out->planned_types.push_back(static_cast<int32_t>(device->type()));
        out->planned_indices.push_back(static_cast<int32_t>(device->index()));
      }
      for (size_t i = 0; i < meta->num_backends(); ++i) {
        auto backend = meta->get_backend_name(i);
        if (!backend.ok()) return backend.error();
        out->backends.emplace_back(*backend);
      }
      return Error::Ok;
    });
  }

 private:
  executorch::extension::BufferDataLoader loader_;
  std::optional<executorch::runtime::Program> program_;
};

class MethodHandle {
 public:
  using Buffers = std::vector<executorch::runtime::Span<uint8_t>>;
  using Devices = std::vector<executorch::runtime::etensor::Device>;

  // `buffers` is the memory planned ahead of time that the file asks for (none for methods planned at run time), and
  // `devices` says where each is.
  MethodHandle(Buffers buffers, Devices devices)
      : buffers_(std::move(buffers)),
        devices_(std::move(devices)),
        planned_memory_({buffers_.data(), buffers_.size()}, {devices_.data(), devices_.size()}),
        memory_(&method_memory_, &planned_memory_, &temporary_memory_) {}

  bool load(ProgramHandle& program, const char* name, PlanPayload* payload, Failure* failure) {
    PlanPayload* const outer = expected_plan;
    auto* const outer_instances = expected_instances;
    expected_plan = payload;
    expected_instances = &instances_;
    const bool loaded = guarded(failure, [&] {
      auto method = program.program().load_method(name, &memory_);
      if (!method.ok()) return method.error();
      method_.emplace(std::move(*method));
      return Error::Ok;
    });
    expected_plan = outer;
    expected_instances = outer_instances;
    if (loaded) {
      for (const auto& instance : instances_) instance->method = &*method_;
    }
    return loaded;
  }

  // The delegates behind function tables, in the order of their index.
  const std::vector<std::shared_ptr<Instance>>& instances() const { return instances_; }

  size_t values() const { return value_count(*method_); }
  size_t inputs() const { return method_->inputs_size(); }
  size_t outputs() const { return method_->outputs_size(); }
  size_t input_value(size_t position) const { return input_value_index(*method_, position); }
  size_t output_value(size_t position) const { return output_value_index(*method_, position); }
  uint32_t tag(size_t value) { return static_cast<uint32_t>(mutable_value(*method_, value).tag); }

  // Values that etarena binds, in the order of the plan section. The caller has checked that each is a tensor.
  void attach(const int32_t* indices, size_t count) {
    slots_.clear();
    slots_.reserve(count);
    size_t dimensions = 0;
    for (size_t i = 0; i < count; ++i) {
      EValue* const value = &mutable_value(*method_, static_cast<size_t>(indices[i]));
      TensorImpl* const impl = value->toTensor().unsafeGetTensorImpl();
      slots_.push_back(
          {value, impl, dimensions, impl->dim(), impl->scalar_type(), impl->shape_dynamism(), impl->device()});
      dimensions += static_cast<size_t>(impl->dim());
    }
    sizes_.assign(dimensions, 0);
    strides_.assign(dimensions, 0);
    orders_.assign(dimensions, 0);
    for (const Slot& slot : slots_) {
      const auto order = slot.impl->dim_order();
      std::copy(order.begin(), order.end(), orders_.begin() + static_cast<ptrdiff_t>(slot.start));
    }
  }

  // Gives every attached value its sizes and address. `sizes` lists the dimensions of all values one after another.
  // Constructing the TensorImpl anew makes these sizes its capacity: a kernel that would write more gets an error from
  // resize instead of writing past the end.
  void rebind(const int32_t* sizes, char* const* addresses) {
    for (size_t i = 0; i < slots_.size(); ++i) rebind_one(i, sizes + slots_[i].start, addresses[i]);
  }

  // The same for one value.
  void rebind_one(size_t position, const int32_t* given, void* address) {
    const Slot& slot = slots_[position];
    int32_t* const sizes = sizes_.data() + slot.start;
    int32_t* const strides = strides_.data() + slot.start;
    uint8_t* const order = orders_.data() + slot.start;
    int32_t step = 1;
    for (ssize_t d = slot.rank; d-- > 0;) {
      sizes[d] = given[d];
      strides[order[d]] = step;
      step *= given[order[d]] > 0 ? given[order[d]] : 1;
    }
    new (slot.impl) TensorImpl(slot.type, slot.rank, sizes, address, order, strides, slot.dynamism, slot.device.type(),
                               slot.device.index());
  }

  void set_address(size_t slot, void* address) { slots_[slot].impl->set_data(address); }
  void mark_input_set(size_t position) { (void)method_->mutable_input(position); }
  void set_int(size_t value, int64_t number) { mutable_value(*method_, value) = EValue(number); }

  bool execute(Failure* failure) {
    undo_moves();
    const MakingTransfers making(&transfers_);
    return guarded(failure, [&] { return method_->execute(); });
  }

  // Who copies between devices from now on.
  void use_transfers(const Transfers& transfers) { transfers_ = transfers; }
  // Position of an attached value by its tensor; -1 for one that is not attached.
  int slot_of(const void* impl) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].impl == impl) return static_cast<int>(i);
    }
    return -1;
  }
  // The device that an attached value is on; what reads its memory must know.
  void set_device(size_t slot, int type, int index) {
    for (const auto& instance : instances_) instance->planned_devices = true;
    slots_[slot].device = executorch::runtime::etensor::Device(
        static_cast<executorch::runtime::etensor::DeviceType>(type), static_cast<int8_t>(index));
  }

  // Numbers that data tells, for runs in stages; slots and symbols were checked.
  void learn_probes(std::vector<Probe> probes, size_t instructions, size_t symbols) {
    told_.learn(std::move(probes), instructions, symbols);
  }
  const int64_t* told_numbers() const { return told_.number.data(); }
  const uint8_t* told_known() const { return told_.known.data(); }

  void begin_stages() {
    undo_moves();
    told_.reset();
    asked_before_ = false;
    steps_ = 0;
  }

  // Runs on until data tells a symbol another number than it had, or to the end.
  StopKind run_to_stop(Stop* stop, Failure* failure) {
    StopKind kind = StopKind::Failed;
    const MakingTransfers making(&transfers_);
    const bool ok = guarded(failure, [&] {
      while (true) {
        const size_t at = next_instruction(*method_);
        if (is_finished(*method_)) {
          kind = StopKind::Done;
          return method_->experimental_reset_execution();
        }
        if (!asked_before_ && at < told_.before.size()) {
          asked_before_ = true;
          const Error error = ask(told_.before[at], at, stop, &kind);
          if (error != Error::Ok || kind != StopKind::Failed) return error;
        }
        if (++steps_ > kMaxSteps) return Error::InvalidProgram;
        const Error error = method_->step();
        if (error != Error::Ok) return error;
        asked_before_ = false;
        if (at < told_.after.size() && !told_.after[at].empty()) {
          const Error unread = ask(told_.after[at], at + 1, stop, &kind);
          if (unread != Error::Ok || kind != StopKind::Failed) return unread;
        }
      }
    });
    return ok ? kind : StopKind::Failed;
  }

  // The stock way in, for methods planned ahead of time: copies into planned memory or keeps the pointer.
  bool set_input_tensor(size_t position, int dtype, int rank, int32_t* sizes, uint8_t* order, int32_t* strides,
                        void* data, Failure* failure) {
    return guarded(failure, [&] {
      TensorImpl impl(static_cast<executorch::aten::ScalarType>(dtype), rank, sizes, data, order, strides,
                      executorch::runtime::TensorShapeDynamism::DYNAMIC_BOUND);
      return method_->set_input(EValue(Tensor(&impl)), position);
    });
  }
  bool set_input_int(size_t position, int64_t number, Failure* failure) {
    return guarded(failure, [&] { return method_->set_input(EValue(number), position); });
  }
  bool set_input_double(size_t position, double number, Failure* failure) {
    return guarded(failure, [&] { return method_->set_input(EValue(number), position); });
  }
  bool set_input_bool(size_t position, bool number, Failure* failure) {
    return guarded(failure, [&] { return method_->set_input(EValue(number), position); });
  }
  bool set_output_address(size_t position, void* address, size_t nbytes, Failure* failure) {
    return guarded(failure, [&] { return method_->set_output_data_ptr(address, nbytes, position); });
  }

  // False when the value is not a tensor.
  bool view(size_t value, TensorView* out) {
    const EValue& evalue = mutable_value(*method_, value);
    if (!evalue.isTensor()) return false;
    const TensorImpl* impl = evalue.toTensor().unsafeGetTensorImpl();
    *out = TensorView{impl->mutable_data(),
                      impl->sizes().data(),
                      impl->strides().data(),
                      impl->dim_order().data(),
                      static_cast<int32_t>(impl->dim()),
                      static_cast<int32_t>(impl->scalar_type()),
                      static_cast<int32_t>(impl->shape_dynamism()),
                      impl->nbytes(),
                      static_cast<int32_t>(impl->device_type()),
                      static_cast<int32_t>(impl->device_index())};
    return true;
  }
  int64_t int_value(size_t value) { return mutable_value(*method_, value).payload.copyable_union.as_int; }
  double double_value(size_t value) { return mutable_value(*method_, value).payload.copyable_union.as_double; }
  bool bool_value(size_t value) { return mutable_value(*method_, value).payload.copyable_union.as_bool; }

 private:
  static constexpr uint64_t kMaxSteps = 10000000;  // as Method::execute()

  struct Slot {
    EValue* value;
    TensorImpl* impl;
    size_t start;  // of its dimensions in the lists below
    ssize_t rank;
    executorch::aten::ScalarType type;
    executorch::runtime::TensorShapeDynamism dynamism;
    executorch::runtime::etensor::Device device;
  };

  // A MoveCall makes a value point at another one's tensor: undo that before every run.
  void undo_moves() {
    for (Slot& slot : slots_) {
      if (slot.value->payload.as_tensor.unsafeGetTensorImpl() != slot.impl) *slot.value = EValue(Tensor(slot.impl));
    }
  }

  Error ask(const std::vector<int32_t>& probes, size_t position, Stop* stop, StopKind* kind) {
    bool changed = false;
    for (const int32_t which : probes) {
      const Probe& probe = told_.probes[which];
      if (static_cast<Teller>(probe.teller) == Teller::Forget) {
        told_.forget(probe, &changed);
        continue;
      }
      int64_t number = 0;
      if (!read(probe, &number)) return Error::InvalidType;
      if (!told_.take(probe, number, &changed)) {
        *stop = {static_cast<int32_t>(position), which, number};
        *kind = StopKind::Uneven;
        return Error::Ok;
      }
    }
    if (changed) {
      *stop = {static_cast<int32_t>(position), -1, 0};
      *kind = StopKind::Told;
    }
    return Error::Ok;
  }

  bool read(const Probe& probe, int64_t* number) {
    if (static_cast<Teller>(probe.teller) == Teller::Scalar) {
      const EValue& value = mutable_value(*method_, static_cast<size_t>(probe.index));
      if (value.isBool()) *number = value.toBool();
      if (value.isInt()) *number = value.toInt();
      return value.isBool() || value.isInt();
    }
    const Tensor tensor = slots_[probe.slot].value->toTensor();
    if (static_cast<Teller>(probe.teller) == Teller::CountNonzero) return count_nonzero(tensor, number);
    *number = tensor.size(probe.dim);
    return true;
  }

  Buffers buffers_;
  Devices devices_;
  executorch::extension::MallocMemoryAllocator method_memory_;
  executorch::extension::MallocMemoryAllocator temporary_memory_;
  executorch::runtime::HierarchicalAllocator planned_memory_;
  executorch::runtime::MemoryManager memory_;
  std::vector<std::shared_ptr<Instance>> instances_;  // they outlive the method, which closes them
  std::optional<Method> method_;
  std::vector<Slot> slots_;
  std::vector<int32_t> sizes_;  // of all slots, one after another
  std::vector<int32_t> strides_;
  std::vector<uint8_t> orders_;
  Transfers transfers_;
  ToldSymbols told_;
  bool asked_before_ = false;  // of the next instruction
  uint64_t steps_ = 0;         // of the run in progress
};

}  // namespace etarena
