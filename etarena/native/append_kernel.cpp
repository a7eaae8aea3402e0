// Writes new entries behind those that a growable cache holds already.
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <cstring>

#include "kernels.h"

namespace etarena {
namespace {

using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

constexpr size_t kRanks = executorch::runtime::kTensorDimensionLimit;

// Copies a strided tensor to `target`, dense in the given dim order.
void copy_dense(const Tensor& source, const uint8_t* order, char* target) {
  const size_t item = source.element_size();
  size_t outer = static_cast<size_t>(source.dim());
  int64_t run = 1;  // elements that lie in the source as in the target
  while (outer > 0) {
    const uint8_t d = order[outer - 1];
    if (source.size(d) != 1 && source.strides()[d] != run) break;
    run *= source.size(d);
    --outer;
  }
  if (source.numel() == 0) return;
  const char* const base = static_cast<const char*>(source.const_data_ptr());
  const size_t nbytes = static_cast<size_t>(run) * item;
  int64_t index[kRanks] = {};
  for (const char* const end = target + source.nbytes(); target != end; target += nbytes) {
    int64_t offset = 0;
    for (size_t i = 0; i < outer; ++i) offset += index[i] * source.strides()[order[i]];
    std::memcpy(target, base + static_cast<size_t>(offset) * item, nbytes);
    for (size_t i = outer; i-- > 0;) {
      if (++index[i] < source.size(order[i])) break;
      index[i] = 0;
    }
  }
}

// What makes the arguments contradict each other; null if nothing does.
const char* contradiction(const Tensor& cache, const Tensor& fresh, int64_t dim, int64_t past, const Tensor& out) {
  if (dim < 0 || dim >= cache.dim()) return "the cache has no such dimension";
  if (fresh.dim() != cache.dim() || out.dim() != cache.dim()) return "the ranks differ";
  if (fresh.scalar_type() != cache.scalar_type() || out.scalar_type() != cache.scalar_type()) {
    return "the dtypes differ";
  }
  int64_t row = 1;
  for (int64_t d = 0; d < cache.dim(); ++d) {
    if (d == dim) continue;
    if (fresh.size(d) != cache.size(d) || out.size(d) != cache.size(d)) return "the sizes of an entry differ";
    row *= cache.size(d);
  }
  if (past != cache.size(dim)) return "past is not the length of the cache";
  if (past + fresh.size(dim) != out.size(dim)) return "the new entries are not as many as planned";
  if (row > 0 && out.strides()[dim] != row) return "the cache does not grow in its outermost dimension";
  if (out.const_data_ptr() != cache.const_data_ptr()) return "the result does not lie where the cache lies";
  return nullptr;
}

}  // namespace

void append_out(KernelRuntimeContext& context, Stack stack) {
  ET_KERNEL_CHECK_MSG(context, stack.size() >= 6, InvalidProgram, , "append takes 6 arguments, got %zu", stack.size());
  const Tensor cache = stack[0]->toTensor();
  const Tensor fresh = stack[1]->toTensor();
  const int64_t dim = stack[2]->toInt();
  const int64_t past = stack[3]->toInt();
  const Tensor out = stack[5]->toTensor();
  const char* const wrong = contradiction(cache, fresh, dim, past, out);
  ET_KERNEL_CHECK_MSG(context, wrong == nullptr, InvalidArgument, , "append to a cache: %s", wrong);
  int64_t row = static_cast<int64_t>(cache.element_size());
  for (int64_t d = 0; d < cache.dim(); ++d) row *= d == dim ? 1 : cache.size(d);
  copy_dense(fresh, out.dim_order().data(), static_cast<char*>(out.mutable_data_ptr()) + past * row);
}

}  // namespace etarena
