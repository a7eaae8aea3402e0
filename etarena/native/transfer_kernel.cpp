// etarena::to_device.out: copies a tensor between the CPU and a device, or between devices.
#include "kernels.h"
#include "transfers.h"

namespace etarena {
namespace {

using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

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

}  // namespace

void to_device_out(KernelRuntimeContext& context, Stack stack) {
  ET_KERNEL_CHECK_MSG(context, stack.size() >= 4, InvalidProgram, , "to_device takes 4 arguments, got %zu",
                      stack.size());
  const Tensor source = stack[0]->toTensor();
  const Tensor target = stack[3]->toTensor();
  const char* const wrong = contradiction(source, target);
  ET_KERNEL_CHECK_MSG(context, wrong == nullptr, InvalidArgument, , "copy between devices: %s", wrong);
  ET_KERNEL_CHECK_MSG(context, current_transfers != nullptr && current_transfers->copy != nullptr, NotSupported, ,
                      "copies between devices run in etarena's methods only");
  const auto* const from = source.unsafeGetTensorImpl();
  const auto* const to = target.unsafeGetTensorImpl();
  const int failed = current_transfers->copy(current_transfers->owner, from, from->mutable_data(), to,
                                             to->mutable_data(), source.nbytes());
  ET_KERNEL_CHECK_MSG(context, failed == 0, AccessFailed, , "a copy between devices failed");
}

}  // namespace etarena
