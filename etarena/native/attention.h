// Blocked attention with a running softmax, for one thread.
//
// Keys are taken in blocks, each block's products are exponentiated against the largest seen so far, and sums are
// rescaled when that changes (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al.,
// FlashAttention, 2022), so nothing of the size of queries x keys is kept. Query rows that read the same keys (the
// heads of a group, neighbouring positions) are worked on together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace etarena {

constexpr int kTile = 4;    // query rows worked on together
constexpr int kBlock = 64;  // keys per block

struct Strided {
  const void* data = nullptr;
  int64_t stride[4] = {};  // in elements
};

struct Attention {
  int64_t batch, heads, queries, size;
  int64_t key_heads, keys, value_size;
  Strided query, key, value, out;
  Strided mask;  // no data: none
  bool mask_is_bool = false;
  bool causal = true;
  int64_t window = 0;  // 0: none
  float scale = 1;
  void* result = nullptr;

  int64_t group() const { return heads / key_heads; }
  int64_t rows() const { return queries * group(); }  // that share a key head, ordered by position
  int64_t tiles_per_head() const { return (rows() + kTile - 1) / kTile; }
  int64_t tiles() const { return batch * key_heads * tiles_per_head(); }
  // Keys that a query may read, without the mask: [first, last).
  int64_t last_key(int64_t query) const {
    return causal ? std::clamp<int64_t>(keys - queries + query + 1, 0, keys) : keys;
  }
  int64_t first_key(int64_t query) const {
    return causal && window > 0 ? std::clamp<int64_t>(keys - queries + query + 1 - window, 0, keys) : 0;
  }
};

// Tiles [begin, end), counted over batches, key heads and rows.
void attend_float(const Attention& job, int64_t begin, int64_t end);
void attend_half(const Attention& job, int64_t begin, int64_t end);
void attend_bfloat16(const Attention& job, int64_t begin, int64_t end);

}  // namespace etarena
