// The operator etarena::attention: checks its arguments, then spreads the rows of queries over the threads.
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <cmath>

#include "attention.h"
#include "kernels.h"
#include "parallel_for.h"

namespace etarena {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;

constexpr int64_t kWorthAThread = 1 << 19;  // multiplications

Strided strided(const Tensor& tensor) {
  Strided out{tensor.const_data_ptr(), {}};
  for (int d = 0; d < 4; ++d) out.stride[d] = tensor.strides()[d];
  return out;
}

// Strides of a mask seen as [batch, heads, queries, keys]: 0 where it is repeated. False if it does not broadcast.
bool broadcast(const Tensor& mask, const int64_t* sizes, Strided* out) {
  if (mask.dim() > 4) return false;
  *out = Strided{mask.const_data_ptr(), {}};
  const int64_t missing = 4 - mask.dim();
  for (int64_t d = 0; d < mask.dim(); ++d) {
    if (mask.size(d) != 1 && mask.size(d) != sizes[missing + d]) return false;
    out->stride[missing + d] = mask.size(d) == 1 ? 0 : mask.strides()[d];
  }
  return true;
}

const char* contradiction(const Tensor& query, const Tensor& key, const Tensor& value) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return "query, key and value need four dimensions";
  const ScalarType dtype = query.scalar_type();
  if (dtype != ScalarType::Float && dtype != ScalarType::Half && dtype != ScalarType::BFloat16) {
    return "the dtype is none of float32, float16, bfloat16";
  }
  if (key.scalar_type() != dtype || value.scalar_type() != dtype) return "the dtypes differ";
  if (key.size(0) != query.size(0) || value.size(0) != query.size(0)) return "the batches differ";
  if (key.size(1) != value.size(1) || key.size(1) == 0 || query.size(1) % key.size(1) != 0) {
    return "query heads are no multiple of key heads";
  }
  if (key.size(2) != value.size(2)) return "key and value have different lengths";
  if (key.size(3) != query.size(3)) return "query and key have different sizes";
  return nullptr;
}

void run(const Attention& job, ScalarType dtype) {
  const int64_t tiles = job.tiles();
  const int64_t per_tile = kTile * std::max<int64_t>(job.keys, 1) * (job.size + job.value_size);
  const int64_t grain = std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(per_tile, 1));
  executorch::extension::parallel_for(0, tiles, grain, [&](int64_t begin, int64_t end) {
    if (dtype == ScalarType::Float) attend_float(job, begin, end);
    if (dtype == ScalarType::Half) attend_half(job, begin, end);
    if (dtype == ScalarType::BFloat16) attend_bfloat16(job, begin, end);
  });
}

}  // namespace

void attention_out(KernelRuntimeContext& context, Stack stack) {
  ET_KERNEL_CHECK_MSG(context, stack.size() >= 8, InvalidProgram, , "attention takes 8 arguments, got %zu",
                      stack.size());
  const Tensor query = stack[0]->toTensor();
  const Tensor key = stack[1]->toTensor();
  const Tensor value = stack[2]->toTensor();
  Tensor out = stack[7]->toTensor();
  const char* const wrong = contradiction(query, key, value);
  ET_KERNEL_CHECK_MSG(context, wrong == nullptr, InvalidArgument, , "attention: %s", wrong);

  Attention job;
  job.batch = query.size(0), job.heads = query.size(1), job.queries = query.size(2), job.size = query.size(3);
  job.key_heads = key.size(1), job.keys = key.size(2), job.value_size = value.size(3);
  job.query = strided(query), job.key = strided(key), job.value = strided(value);
  job.causal = stack[4]->toBool();
  job.scale = stack[5]->isNone() ? 1 / std::sqrt(static_cast<float>(job.size))
                                 : static_cast<float>(stack[5]->toScalar().to<double>());
  job.window = stack[6]->isNone() ? 0 : stack[6]->toInt();
  if (!stack[3]->isNone()) {
    const Tensor mask = stack[3]->toTensor();
    const int64_t sizes[4] = {job.batch, job.heads, job.queries, job.keys};
    const bool known = mask.scalar_type() == ScalarType::Bool || mask.scalar_type() == query.scalar_type();
    ET_KERNEL_CHECK_MSG(context, known && broadcast(mask, sizes, &job.mask), InvalidArgument, ,
                        "attention: the mask does not fit [batch, heads, queries, keys]");
    job.mask_is_bool = mask.scalar_type() == ScalarType::Bool;
  }
  const SizesType sizes[4] = {query.sizes()[0], query.sizes()[1], query.sizes()[2], value.sizes()[3]};
  ET_KERNEL_CHECK_MSG(context, out.dim() == 4 && out.scalar_type() == query.scalar_type(), InvalidArgument, ,
                      "attention: the result has another rank or dtype");
  ET_KERNEL_CHECK_MSG(context, executorch::runtime::resize_tensor(out, {sizes, 4}) == executorch::runtime::Error::Ok,
                      InvalidArgument, , "attention: the result has another shape than planned");
  job.out = strided(out);
  job.result = out.mutable_data_ptr();
  if (out.numel() > 0) run(job, query.scalar_type());
}

}  // namespace etarena
