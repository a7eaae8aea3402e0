#include "attention.h"

#include <executorch/runtime/core/portable_type/bfloat16.h>
#include <executorch/runtime/core/portable_type/half.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace etarena {
namespace {

using executorch::runtime::etensor::BFloat16;
using executorch::runtime::etensor::Half;

constexpr int kLanes = 16;
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(int32_t))));

#if defined(__x86_64__) && defined(__GNUC__)
// One version per kind of processor; the right one is chosen when the module is loaded.
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
#define INLINE inline __attribute__((always_inline))

constexpr float kNothing = -std::numeric_limits<float>::infinity();

INLINE void load(const float* from, Vector* to) { std::memcpy(to, from, sizeof(Vector)); }
INLINE void store(const Vector* from, float* to) { std::memcpy(to, from, sizeof(Vector)); }

INLINE float sum_of_lanes(const float* lanes) {
  float eight[8], four[4];
  for (int i = 0; i < 8; ++i) eight[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// values[i] = exp(values[i] - shift), and their sum. Range reduction to |r| <= ln(2)/2 and a polynomial of degree 6
// (coefficients of Moshier's Cephes library, expf): relative error below 2e-7, zero below -87.
INLINE float exponentiate(float* values, float shift) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2**23: adding it rounds to an integer
  constexpr int32_t kRoundBits = 0x4b400000;
  Vector sum = {};
  for (int i = 0; i < kBlock; i += kLanes) {
    Vector x;
    load(values + i, &x);
    x -= shift;
    const Bits alive = ~(x < -87.0f);  // also for NaN
    const Vector whole = x * 1.44269504088896341f + kRound;
    const Vector n = whole - kRound;
    const Vector r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    Bits exponent, scaled;
    std::memcpy(&exponent, &whole, sizeof(exponent));
    std::memcpy(&scaled, &p, sizeof(scaled));
    scaled = (scaled + ((exponent - kRoundBits) << 23)) & alive;
    std::memcpy(&p, &scaled, sizeof(p));
    store(&p, values + i);
    sum += p;
  }
  float lanes[kLanes];
  store(&sum, lanes);
  return sum_of_lanes(lanes);
}

struct Scratch {
  int64_t size, value_size;  // rounded up to whole vectors
  std::vector<float> query, key, value, total;
  float product[kTile][kBlock];
  float largest[kTile], weight[kTile];

  explicit Scratch(const Attention& job)
      : size((job.size + kLanes - 1) / kLanes * kLanes),
        value_size((job.value_size + kLanes - 1) / kLanes * kLanes),
        query(static_cast<size_t>(kTile * size)),
        key(static_cast<size_t>(kBlock * size)),
        value(static_cast<size_t>(kBlock * value_size)),
        total(static_cast<size_t>(kTile * value_size)) {}
};

// Rows [first, first + count) as floats in whole vectors: where they lie if they are that already, else a copy.
template <typename Item>
INLINE const float* rows_of(const Item* base, int64_t row_stride, int64_t item_stride, int64_t first, int count,
                            int64_t size, int64_t padded, float* copy, int64_t* step) {
  base += first * row_stride;
  if constexpr (sizeof(Item) == sizeof(float)) {
    if (item_stride == 1 && size == padded) {
      *step = row_stride;
      return base;
    }
  }
  *step = padded;
  for (int j = 0; j < count; ++j) {
    for (int64_t d = 0; d < size; ++d) {
      copy[j * padded + d] = static_cast<float>(base[j * row_stride + d * item_stride]);
    }
  }
  return copy;  // what pads a row is zero since the scratch was made
}

INLINE void multiply(const Scratch& scratch, const float* key, int64_t step, int count, float (*product)[kBlock]) {
  for (int j = 0; j < count; ++j) {
    Vector sums[kTile] = {};
    for (int64_t d = 0; d < scratch.size; d += kLanes) {
      Vector k;
      load(key + j * step + d, &k);
      for (int r = 0; r < kTile; ++r) {
        Vector q;
        load(scratch.query.data() + r * scratch.size + d, &q);
        sums[r] += q * k;
      }
    }
    for (int r = 0; r < kTile; ++r) {
      float lanes[kLanes];
      store(&sums[r], lanes);
      product[r][j] = sum_of_lanes(lanes);
    }
  }
}

INLINE void accumulate(Scratch& scratch, const float* value, int64_t step, int count) {
  for (int64_t d = 0; d < scratch.value_size; d += kLanes) {
    Vector sums[kTile];
    for (int r = 0; r < kTile; ++r) load(scratch.total.data() + r * scratch.value_size + d, &sums[r]);
    for (int j = 0; j < count; ++j) {
      Vector v;
      load(value + j * step + d, &v);
      for (int r = 0; r < kTile; ++r) sums[r] += scratch.product[r][j] * v;
    }
    for (int r = 0; r < kTile; ++r) store(&sums[r], scratch.total.data() + r * scratch.value_size + d);
  }
}

template <typename Item>
INLINE void apply_mask(const Attention& job, const int64_t* place, int64_t first, int count, float* product) {
  const Strided& mask = job.mask;
  const int64_t start = place[0] * mask.stride[0] + place[1] * mask.stride[1] + place[2] * mask.stride[2];
  for (int j = 0; j < count; ++j) {
    const int64_t at = start + (first + j) * mask.stride[3];
    if (!job.mask_is_bool) {
      product[j] += static_cast<float>(static_cast<const Item*>(mask.data)[at]);
    } else if (!static_cast<const bool*>(mask.data)[at]) {
      product[j] = kNothing;
    }
  }
}

// Turns the products of one row into weights, and brings what the row has summed up to the new scale.
INLINE void weigh(Scratch& scratch, int r) {
  float* const product = scratch.product[r];
  float most = scratch.largest[r];
  for (int j = 0; j < kBlock; ++j) most = product[j] > most ? product[j] : most;
  if (most == kNothing) {
    bool defined = true;
    for (int j = 0; j < kBlock; ++j) defined &= product[j] == product[j];
    if (defined) {
      for (int j = 0; j < kBlock; ++j) product[j] = 0;
      return;
    }
    most = 0;  // only NaN: let it through
  }
  const float factor = scratch.largest[r] == kNothing ? 0.0f : std::exp(scratch.largest[r] - most);
  scratch.weight[r] = scratch.weight[r] * factor + exponentiate(product, most);
  scratch.largest[r] = most;
  if (factor != 1.0f) {
    float* const total = scratch.total.data() + r * scratch.value_size;
    for (int64_t d = 0; d < scratch.value_size; ++d) total[d] *= factor;
  }
}

template <typename Item>
INLINE void attend_tile(const Attention& job, Scratch& scratch, int64_t tile) {
  const int64_t per_head = job.tiles_per_head(), group = job.group();
  const int64_t batch = tile / per_head / job.key_heads, key_head = tile / per_head % job.key_heads;
  const int64_t first_row = tile % per_head * kTile;
  const int rows = static_cast<int>(std::min<int64_t>(kTile, job.rows() - first_row));
  int64_t place[kTile][3];  // batch, head, position
  int64_t begin = job.keys, end = 0;
  std::fill(scratch.total.begin(), scratch.total.end(), 0.0f);
  for (int r = 0; r < kTile; ++r) {
    const int64_t row = first_row + std::min(r, rows - 1);
    place[r][0] = batch, place[r][1] = key_head * group + row % group, place[r][2] = row / group;
    begin = std::min(begin, job.first_key(place[r][2]));
    end = std::max(end, job.last_key(place[r][2]));
    scratch.largest[r] = kNothing, scratch.weight[r] = 0;
    const int64_t* stride = job.query.stride;
    const Item* query = static_cast<const Item*>(job.query.data) + place[r][0] * stride[0] + place[r][1] * stride[1] +
                        place[r][2] * stride[2];
    for (int64_t d = 0; d < job.size; ++d) {
      scratch.query[r * scratch.size + d] = static_cast<float>(query[d * stride[3]]) * job.scale;
    }
  }
  const Item* const keys =
      static_cast<const Item*>(job.key.data) + batch * job.key.stride[0] + key_head * job.key.stride[1];
  const Item* const values =
      static_cast<const Item*>(job.value.data) + batch * job.value.stride[0] + key_head * job.value.stride[1];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int count = static_cast<int>(std::min<int64_t>(kBlock, end - first));
    int64_t step;
    const float* key = rows_of(keys, job.key.stride[2], job.key.stride[3], first, count, job.size, scratch.size,
                               scratch.key.data(), &step);
    multiply(scratch, key, step, count, scratch.product);
    for (int r = 0; r < kTile; ++r) {
      float* const product = scratch.product[r];
      if (job.mask.data != nullptr) apply_mask<Item>(job, place[r], first, count, product);
      const int64_t from = job.first_key(place[r][2]) - first, to = job.last_key(place[r][2]) - first;
      for (int64_t j = 0; j < std::min<int64_t>(from, count); ++j) product[j] = kNothing;
      for (int64_t j = std::max<int64_t>(0, std::min<int64_t>(to, count)); j < kBlock; ++j) product[j] = kNothing;
      weigh(scratch, r);
    }
    const float* value = rows_of(values, job.value.stride[2], job.value.stride[3], first, count, job.value_size,
                                 scratch.value_size, scratch.value.data(), &step);
    accumulate(scratch, value, step, count);
  }
  for (int r = 0; r < rows; ++r) {
    const float factor = scratch.weight[r] == 0 ? 0.0f : 1 / scratch.weight[r];
    const int64_t* stride = job.out.stride;
    Item* const out =
        static_cast<Item*>(job.result) + place[r][0] * stride[0] + place[r][1] * stride[1] + place[r][2] * stride[2];
    for (int64_t d = 0; d < job.value_size; ++d) {
      out[d * stride[3]] = static_cast<Item>(scratch.total[r * scratch.value_size + d] * factor);
    }
  }
}

}  // namespace

FOR_EVERY_PROCESSOR void attend_float(const Attention& job, int64_t begin, int64_t end) {
  Scratch scratch(job);
  for (int64_t tile = begin; tile < end; ++tile) attend_tile<float>(job, scratch, tile);
}

FOR_EVERY_PROCESSOR void attend_half(const Attention& job, int64_t begin, int64_t end) {
  Scratch scratch(job);
  for (int64_t tile = begin; tile < end; ++tile) attend_tile<Half>(job, scratch, tile);
}

FOR_EVERY_PROCESSOR void attend_bfloat16(const Attention& job, int64_t begin, int64_t end) {
  Scratch scratch(job);
  for (int64_t tile = begin; tile < end; ++tile) attend_tile<BFloat16>(job, scratch, tile);
}

}  // namespace etarena
