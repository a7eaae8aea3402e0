// etarena::to_device.out: copies a tensor between the CPU and a device, or between devices.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels.h"
#include "transfers.h"

namespace etarena {
namespace {

using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::etensor::Device;

constexpr uint64_t kStage = 1 << 20;  // bytes on the CPU between two devices

struct End {
  int32_t type;
  int32_t index;
  const etarena_device_allocator* allocator;
  void* data;  // address on the CPU, else the resource

  const etarena_resource* resource() const { return static_cast<const etarena_resource*>(data); }
};

End end_of(const Tensor& tensor) {
  const auto* const impl = tensor.unsafeGetTensorImpl();
  const auto type = static_cast<int32_t>(impl->device_type());
  const auto* const allocator = type == 0 ? nullptr : current_transfers->find(type);
  return {type, static_cast<int32_t>(impl->device_index()), allocator, impl->mutable_data()};
}

// What makes the arguments contradict each other; null if nothing does.
const char* contradiction(const Tensor& source, const Tensor& target) {
  if (source.scalar_type() != target.scalar_type()) return "the dtypes differ";
  if (source.dim() != target.dim()) return "the ranks differ";
  for (ssize_t d = 0; d < source.dim(); ++d) {
    if (source.size(d) != target.size(d)) return "the sizes differ";
    if (source.dim_order()[d] != target.dim_order()[d]) return "the dim orders differ";
  }
  return nullptr;
}

etarena_status from_host(const End& target, uint64_t offset, const void* source, uint64_t nbytes,
                         etarena_error* error) {
  return target.allocator->copy_to_device(target.allocator->context, target.index, target.resource(), offset, source,
                                          nbytes, error);
}

etarena_status to_host(const End& source, uint64_t offset, void* target, uint64_t nbytes, etarena_error* error) {
  return source.allocator->copy_to_host(source.allocator->context, source.index, target, source.resource(), offset,
                                        nbytes, error);
}

etarena_status by_way_of_host(const End& source, const End& target, uint64_t nbytes, etarena_error* error) {
  const auto stage = std::make_unique<char[]>(std::min(nbytes, kStage));
  for (uint64_t offset = 0; offset < nbytes; offset += kStage) {
    const uint64_t part = std::min(nbytes - offset, kStage);
    etarena_status status = to_host(source, offset, stage.get(), part, error);
    if (status == ETARENA_OK) status = from_host(target, offset, stage.get(), part, error);
    if (status != ETARENA_OK) return status;
  }
  return ETARENA_OK;
}

etarena_status copy(const End& source, const End& target, uint64_t nbytes, etarena_error* error) {
  if (source.type == 0 && target.type == 0) {
    std::memcpy(target.data, source.data, nbytes);
    return ETARENA_OK;
  }
  if (source.type == 0) return from_host(target, 0, source.data, nbytes, error);
  if (target.type == 0) return to_host(source, 0, target.data, nbytes, error);
  return by_way_of_host(source, target, nbytes, error);
}

}  // namespace

void to_device_out(KernelRuntimeContext& context, Stack stack) {
  ET_KERNEL_CHECK_MSG(context, stack.size() >= 4, InvalidProgram, , "to_device takes 4 arguments, got %zu",
                      stack.size());
  const Tensor source = stack[0]->toTensor();
  const Tensor target = stack[3]->toTensor();
  const char* const wrong = contradiction(source, target);
  ET_KERNEL_CHECK_MSG(context, wrong == nullptr, InvalidArgument, , "copy between devices: %s", wrong);
  ET_KERNEL_CHECK_MSG(context, current_transfers != nullptr, NotSupported, ,
                      "copies between devices run in etarena's methods only");
  if (source.nbytes() == 0) return;
  const End from = end_of(source), to = end_of(target);
  for (const End& end : {from, to}) {
    ET_KERNEL_CHECK_MSG(context, end.type == 0 || end.allocator != nullptr, NotFound, ,
                        "no allocator is registered for devices of type %d", static_cast<int>(end.type));
    ET_KERNEL_CHECK_MSG(context, end.data != nullptr, InvalidState, ,
                        "a tensor of a copy between devices has no memory");
  }
  current_transfers->made.push_back(
      {source.unsafeGetTensorImpl(), target.unsafeGetTensorImpl(), static_cast<size_t>(source.nbytes())});
  current_transfers->refused = current_transfers->refuse;
  ET_KERNEL_CHECK_MSG(context, !current_transfers->refuse, NotSupported, , "a copy between devices is refused");
  etarena_error error;
  error.message[0] = 0;
  const etarena_status status = copy(from, to, source.nbytes(), &error);
  error.message[sizeof(error.message) - 1] = 0;
  ET_KERNEL_CHECK_MSG(context, status == ETARENA_OK, AccessFailed, , "copy from device %d:%d to %d:%d failed: %s",
                      static_cast<int>(from.type), static_cast<int>(from.index), static_cast<int>(to.type),
                      static_cast<int>(to.index), error.message[0] == 0 ? "no reason given" : error.message);
}

}  // namespace etarena
