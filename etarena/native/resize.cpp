#include "resize.h"

#include <executorch/runtime/core/portable_type/bfloat16.h>
#include <executorch/runtime/core/portable_type/half.h>

#include <cmath>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // loops over elements become vector instructions, which -O2 leaves out
#endif

namespace etarena {
namespace {

using executorch::runtime::etensor::BFloat16;
using executorch::runtime::etensor::Half;

#if defined(__x86_64__) && defined(__GNUC__)
// One version per kind of processor; the right one is chosen when the module is loaded.
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
#define INLINE inline __attribute__((always_inline))

float step(int64_t source, int64_t result, bool align_corners, double scale) {
  if (align_corners) return result > 1 ? static_cast<float>(source - 1) / static_cast<float>(result - 1) : 0.0f;
  if (scale > 0) return static_cast<float>(1.0 / scale);
  return static_cast<float>(source) / static_cast<float>(result);
}

// The cubic convolution kernel with a = -0.75 (Keys, Cubic convolution interpolation for digital image processing,
// 1981), within one element of the centre and beyond.
double near(double x) { return ((-0.75 + 2) * x - (-0.75 + 3)) * x * x + 1; }
double far(double x) { return ((-0.75 * x + 5 * 0.75) * x - 8 * 0.75) * x + 4 * 0.75; }

// Where the middle of element `i` lies, rounded once, as by PyTorch where it is compiled for fused operations.
float middle(float by, float i) { return static_cast<float>(static_cast<double>(by) * (i + 0.5f) - 0.5); }

int64_t whole_part(float place, int64_t size) {
  const float last = static_cast<float>(size - 1);
  return place >= last ? size - 1 : static_cast<int64_t>(std::floor(place));
}

// How the pieces of rows [first, first + pixels) that were resized along the row are kept: by source row.
struct Kept {
  std::vector<float> values[kMostTaps];
  int64_t row[kMostTaps] = {-1, -1, -1, -1};

  void forget() { std::fill(row, row + kMostTaps, int64_t{-1}); }
  // The slot of a source row, of as many slots as rows are needed. One that is not needed is given up for it.
  int slot(int64_t wanted, const int64_t* needed, int count) const {
    for (int i = 0; i < count; ++i) {
      if (row[i] == wanted) return i;
    }
    for (int i = 0; i < count; ++i) {
      if (std::find(needed, needed + count, row[i]) == needed + count) return i;
    }
    return 0;  // cannot be: one of them is not there yet
  }
};

struct Strip {
  int64_t first, pixels;
};

template <typename Item>
INLINE void along_planes(const Taps& taps, const Item* __restrict source, Strip strip, float* __restrict out) {
  const int32_t* index = taps.index.data() + strip.first;
  const float* weight = taps.weight.data() + strip.first;
  if (taps.count == 2) {
    const int32_t* __restrict right = index + taps.size;
    const float* __restrict right_weight = weight + taps.size;
    for (int64_t x = 0; x < strip.pixels; ++x) {
      out[x] =
          weight[x] * static_cast<float>(source[index[x]]) + right_weight[x] * static_cast<float>(source[right[x]]);
    }
    return;
  }
  for (int64_t x = 0; x < strip.pixels; ++x) out[x] = weight[x] * static_cast<float>(source[index[x]]);
  for (int tap = 1; tap < taps.count; ++tap) {
    index += taps.size, weight += taps.size;
    for (int64_t x = 0; x < strip.pixels; ++x) out[x] += weight[x] * static_cast<float>(source[index[x]]);
  }
}

template <typename Item>
INLINE void along_pixels(const Taps& taps, const Item* source, int64_t items, Strip strip, float* out) {
  for (int64_t x = strip.first; x < strip.first + strip.pixels; ++x, out += items) {
    float* __restrict const to = out;
    const Item* __restrict const first = source + taps.index[x] * items;
    const Item* __restrict const second = source + taps.index[taps.size + x] * items;
    const float one = taps.weight[x], two = taps.weight[taps.size + x];
    for (int64_t c = 0; c < items; ++c)
      to[c] = one * static_cast<float>(first[c]) + two * static_cast<float>(second[c]);
    for (int tap = 2; tap < taps.count; ++tap) {
      const Item* __restrict const next = source + taps.index[tap * taps.size + x] * items;
      const float weight = taps.weight[tap * taps.size + x];
      for (int64_t c = 0; c < items; ++c) to[c] += weight * static_cast<float>(next[c]);
    }
  }
}

template <typename Item>
INLINE void blend(const float* const* rows, const float* weights, int count, int64_t size, Item* __restrict out) {
  const float* __restrict const a = rows[0];
  const float* __restrict const b = rows[1];
  if (count == 2) {
    for (int64_t i = 0; i < size; ++i) out[i] = static_cast<Item>(weights[0] * a[i] + weights[1] * b[i]);
    return;
  }
  const float* __restrict const c = rows[2];
  const float* __restrict const d = rows[3];
  for (int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<Item>(weights[0] * a[i] + weights[1] * b[i] + weights[2] * c[i] + weights[3] * d[i]);
  }
}

// Where a part lies.
struct Part {
  int64_t picture, row;
  Strip strip;

  Part(const Resize& job, int64_t number) {
    const int64_t width = job.pixels_per_strip(), within = number % job.parts_per_picture();
    picture = number / job.parts_per_picture();
    row = within % job.rows.size;
    strip.first = within / job.rows.size * width;
    strip.pixels = std::min(width, job.columns.size - strip.first);
  }
};

template <typename Item>
INLINE Item* destination(const Resize& job, const Part& part) {
  const int64_t row = part.picture * job.rows.size + part.row;
  return static_cast<Item*>(job.result) + (row * job.columns.size + part.strip.first) * job.items;
}

template <typename Item>
INLINE const Item* origin(const Resize& job, const Part& part, int64_t row) {
  return static_cast<const Item*>(job.source) + (part.picture * job.source_height + row) * job.source_width * job.items;
}

template <typename Item>
INLINE void interpolate(const Resize& job, int64_t begin, int64_t end) {
  Kept kept;
  const int64_t longest = std::min(job.pixels_per_strip(), job.columns.size) * job.items;
  for (int slot = 0; slot < job.rows.count; ++slot) kept.values[slot].resize(static_cast<size_t>(longest));
  for (int64_t number = begin; number < end; ++number) {
    const Part part(job, number);
    if (part.row == 0) kept.forget();
    int64_t needed[kMostTaps] = {};
    float weights[kMostTaps] = {};
    const float* rows[kMostTaps] = {};
    const int count = job.rows.count;
    for (int tap = 0; tap < count; ++tap) {
      needed[tap] = job.rows.index[tap * job.rows.size + part.row];
      weights[tap] = job.rows.weight[tap * job.rows.size + part.row];
    }
    for (int tap = 0; tap < count; ++tap) {
      const int slot = kept.slot(needed[tap], needed, count);
      float* const values = kept.values[slot].data();
      if (kept.row[slot] != needed[tap]) {
        const Item* const source = origin<Item>(job, part, needed[tap]);
        if (job.items == 1)
          along_planes(job.columns, source, part.strip, values);
        else
          along_pixels(job.columns, source, job.items, part.strip, values);
        kept.row[slot] = needed[tap];
      }
      rows[tap] = values;
    }
    blend(rows, weights, count, part.strip.pixels * job.items, destination<Item>(job, part));
  }
}

template <typename Item>
INLINE void pick(const Resize& job, int64_t begin, int64_t end) {
  for (int64_t number = begin; number < end; ++number) {
    const Part part(job, number);
    const int32_t* const index = job.columns.index.data() + part.strip.first;
    const int64_t row = job.rows.index[part.row], items = job.items, size = part.strip.pixels * items;
    Item* __restrict const out = destination<Item>(job, part);
    const Item* __restrict const source = origin<Item>(job, part, row);
    if (number > begin && part.row > 0 && job.rows.index[part.row - 1] == row) {
      std::memcpy(out, out - job.columns.size * items, static_cast<size_t>(size) * sizeof(Item));
    } else if (items == 1) {
      for (int64_t x = 0; x < part.strip.pixels; ++x) out[x] = source[index[x]];
    } else {
      for (int64_t x = 0; x < part.strip.pixels; ++x) {
        std::memcpy(out + x * items, source + index[x] * items, static_cast<size_t>(items) * sizeof(Item));
      }
    }
  }
}

}  // namespace

Taps::Taps(Interpolation mode, int64_t source, int64_t result, bool align_corners, double scale)
    : count(mode == Interpolation::kBicubic    ? 4
            : mode == Interpolation::kBilinear ? 2
                                               : 1),
      size(result),
      index(static_cast<size_t>(count * result)),
      weight(static_cast<size_t>(count * result), 1.0f) {
  const float by = step(source, result, align_corners, scale);
  for (int64_t i = 0; i < result; ++i) {
    const float at = static_cast<float>(i);
    float place = align_corners || mode == Interpolation::kNearest ? by * at : middle(by, at);
    if (mode != Interpolation::kBicubic) place = std::max(place, 0.0f);
    if (mode == Interpolation::kNearestExact) place = by * (at + 0.5f);
    // As in PyTorch, whatever the scale: some ways keep pictures of the same size, or double each element.
    if ((mode == Interpolation::kBilinear || mode == Interpolation::kNearest) && source == result) place = at;
    if (mode == Interpolation::kNearest && 2 * source == result) place = at / 2;
    const int64_t first = whole_part(place, source);
    const float past = std::clamp(place - static_cast<float>(first), 0.0f, 1.0f);
    if (count == 4) {
      const double weights[4] = {far(1.0 + past), near(past), near(1.0 - past), far(2.0 - past)};
      for (int tap = 0; tap < 4; ++tap) {
        index[tap * size + i] = static_cast<int32_t>(std::clamp<int64_t>(first + tap - 1, 0, source - 1));
        weight[tap * size + i] = static_cast<float>(weights[tap]);
      }
      continue;
    }
    index[i] = static_cast<int32_t>(first);
    if (count == 2) {
      index[size + i] = static_cast<int32_t>(std::min(first + 1, source - 1));
      weight[i] = 1.0f - past;
      weight[size + i] = past;
    }
  }
}

FOR_EVERY_PROCESSOR void resize_float(const Resize& job, int64_t begin, int64_t end) {
  interpolate<float>(job, begin, end);
}

FOR_EVERY_PROCESSOR void resize_half(const Resize& job, int64_t begin, int64_t end) {
  interpolate<Half>(job, begin, end);
}

FOR_EVERY_PROCESSOR void resize_bfloat16(const Resize& job, int64_t begin, int64_t end) {
  interpolate<BFloat16>(job, begin, end);
}

FOR_EVERY_PROCESSOR void pick_4_bytes(const Resize& job, int64_t begin, int64_t end) {
  pick<uint32_t>(job, begin, end);
}

FOR_EVERY_PROCESSOR void pick_2_bytes(const Resize& job, int64_t begin, int64_t end) {
  pick<uint16_t>(job, begin, end);
}

}  // namespace etarena
