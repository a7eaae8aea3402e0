// The operators etarena::resize2d: they check their arguments, then spread the rows of the result over the threads.
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <limits>
#include <string_view>

#include "kernels.h"
#include "parallel_for.h"
#include "resize.h"

namespace etarena {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;

constexpr int64_t kWorthAThread = 1 << 15;  // elements of the result
constexpr int64_t kLongest = std::numeric_limits<SizesType>::max();

// Whether the elements lie one after the other in the given order of dimensions.
bool lies(const Tensor& tensor, const int (&order)[4]) {
  int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    if (tensor.size(order[i]) != 1 && tensor.strides()[order[i]] != stride) return false;
    stride *= tensor.size(order[i]);
  }
  return true;
}

bool known_mode(std::string_view name, Interpolation* mode) {
  if (name == "nearest")
    *mode = Interpolation::kNearest;
  else if (name == "nearest-exact")
    *mode = Interpolation::kNearestExact;
  else if (name == "bilinear")
    *mode = Interpolation::kBilinear;
  else if (name == "bicubic")
    *mode = Interpolation::kBicubic;
  else
    return false;
  return true;
}

// The scale of each dimension (0: none) and the sizes that follow from them and the old ones, as PyTorch's interpolate
// says. What makes them contradict each other, or null.
const char* target(const int64_t* old, Stack stack, double* scales, int64_t* sizes) {
  for (int d = 0; d < 2; ++d) {
    if (!stack[2 + d]->isNone() && !stack[2 + d]->isDouble()) return "a scale is no number";
    scales[d] = stack[2 + d]->isNone() ? 0 : stack[2 + d]->toDouble();
    const double size = static_cast<double>(old[d]) * scales[d];
    sizes[d] = size >= 0 && size <= static_cast<double>(kLongest) ? static_cast<int64_t>(size) : -1;
  }
  if (!stack[1]->isNone()) {
    if (!stack[1]->isIntList()) return "the size is no list of ints";
    const auto given = stack[1]->toIntList();
    if (given.size() != 2) return "the size is not [height, width]";
    for (int d = 0; d < 2; ++d) sizes[d] = given[d];
  }
  for (int d = 0; d < 2; ++d) {
    if (sizes[d] < 1 || sizes[d] > kLongest) return "the size of the result is none that a picture can have";
  }
  return nullptr;
}

const char* contradiction(const Tensor& x, const Tensor& out) {
  if (x.dim() != 4 || out.dim() != 4) return "a picture has four dimensions";
  const ScalarType dtype = x.scalar_type();
  if (dtype != ScalarType::Float && dtype != ScalarType::Half && dtype != ScalarType::BFloat16) {
    return "the dtype is none of float32, float16, bfloat16";
  }
  if (out.scalar_type() != dtype) return "the dtypes differ";
  return nullptr;
}

void run(const Resize& job, int64_t pictures, ScalarType dtype) {
  const bool is_float = dtype == ScalarType::Float, copies = job.rows.count == 1;
  const int64_t per_part = std::min(job.pixels_per_strip(), job.columns.size) * job.items * job.rows.count;
  const int64_t grain = std::max<int64_t>(1, kWorthAThread / per_part);
  executorch::extension::parallel_for(0, pictures * job.parts_per_picture(), grain, [&](int64_t begin, int64_t end) {
    if (copies) return is_float ? pick_4_bytes(job, begin, end) : pick_2_bytes(job, begin, end);
    if (is_float) resize_float(job, begin, end);
    if (dtype == ScalarType::Half) resize_half(job, begin, end);
    if (dtype == ScalarType::BFloat16) resize_bfloat16(job, begin, end);
  });
}

// `x` is [batch, channels, height, width], or [batch, height, width, channels] if it has whole pixels.
void resize(KernelRuntimeContext& context, Stack stack, bool whole_pixels) {
  ET_KERNEL_CHECK_MSG(context, stack.size() >= 7 && stack[0]->isTensor() && stack[6]->isTensor(), InvalidProgram, ,
                      "resize2d takes 7 arguments, got %zu", stack.size());
  const Tensor x = stack[0]->toTensor();
  Tensor out = stack[6]->toTensor();
  Interpolation mode;
  ET_KERNEL_CHECK_MSG(context, stack[4]->isString() && known_mode(stack[4]->toString(), &mode) && stack[5]->isBool(),
                      InvalidArgument, , "resize2d: no such way to resize");
  const char* wrong = contradiction(x, out);
  ET_KERNEL_CHECK_MSG(context, wrong == nullptr, InvalidArgument, , "resize2d: %s", wrong);
  const int first = whole_pixels ? 1 : 2;  // of the picture's dimensions
  const int64_t old[2] = {x.size(first), x.size(first + 1)}, channels = x.size(whole_pixels ? 3 : 1);
  double scales[2];
  int64_t size[2];
  wrong = old[0] < 1 || old[1] < 1 ? "the picture has no pixels" : target(old, stack, scales, size);
  ET_KERNEL_CHECK_MSG(context, wrong == nullptr, InvalidArgument, , "resize2d: %s", wrong);
  const SizesType sizes[4] = {x.sizes()[0], static_cast<SizesType>(channels), static_cast<SizesType>(size[0]),
                              static_cast<SizesType>(size[1])};
  ET_KERNEL_CHECK_MSG(context, executorch::runtime::resize_tensor(out, {sizes, 4}) == executorch::runtime::Error::Ok,
                      InvalidArgument, , "resize2d: the result has another shape than planned");
  const bool in_planes = !whole_pixels && lies(x, {0, 1, 2, 3}) && lies(out, {0, 1, 2, 3});
  const bool in_pixels = (whole_pixels ? lies(x, {0, 1, 2, 3}) : lies(x, {0, 2, 3, 1})) && lies(out, {0, 2, 3, 1});
  ET_KERNEL_CHECK_MSG(context, in_planes || in_pixels, InvalidArgument, ,
                      "resize2d: the picture and the result are neither both contiguous nor both channels-last");
  if (out.numel() == 0) return;
  const bool align_corners = stack[5]->toBool();
  const Taps rows(mode, old[0], size[0], align_corners, scales[0]);
  const Taps columns(mode, old[1], size[1], align_corners, scales[1]);
  const int64_t items = in_planes ? 1 : channels;
  const Resize job{rows, columns, x.const_data_ptr(), out.mutable_data_ptr(), old[0], old[1], items};
  run(job, x.size(0) * channels / items, x.scalar_type());
}

}  // namespace

void resize2d_out(KernelRuntimeContext& context, Stack stack) { resize(context, stack, false); }

void resize2d_pixels_out(KernelRuntimeContext& context, Stack stack) { resize(context, stack, true); }

}  // namespace etarena
