// Resizing of pictures: nearest, bilinear, bicubic, in one dimension after the other.
//
// A result row is a weighted sum of source rows that were resized along the row first. Those are kept while the result
// rows that need them are made, so that enlarging a picture resizes each of its rows once; strips narrow enough for
// the cache are worked on from top to bottom. Which source elements an element needs, and their weights, are PyTorch's
// (aten/src/ATen/native/UpSample.h, cpu/UpSampleKernel.cpp), computed in float as there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace etarena {

constexpr int kMostTaps = 4;
constexpr int64_t kStrip = 2048;  // elements of a row that are worked on together

enum class Interpolation { kNearest, kNearestExact, kBilinear, kBicubic };

// The source elements of every result element along one dimension: tap by tap, `size` indices and weights each.
struct Taps {
  int count;
  int64_t size;
  std::vector<int32_t> index;
  std::vector<float> weight;

  // `scale` as PyTorch's interpolate was given it; 0: none. Both sizes are at least 1.
  Taps(Interpolation mode, int64_t source, int64_t result, bool align_corners, double scale);
};

// Pictures one after the other, each of rows of pixels of `items` elements: planes of channels have one element in
// each, channels-last pictures have all channels in each.
struct Resize {
  const Taps& rows;
  const Taps& columns;
  const void* source;
  void* result;
  int64_t source_height, source_width, items;

  int64_t pixels_per_strip() const { return std::max<int64_t>(1, kStrip / items); }
  int64_t strips() const { return (columns.size + pixels_per_strip() - 1) / pixels_per_strip(); }
  int64_t parts_per_picture() const { return strips() * rows.size; }
};

// Parts [begin, end): one strip's piece of a result row each, counted over pictures, strips and rows.
void resize_float(const Resize& job, int64_t begin, int64_t end);
void resize_half(const Resize& job, int64_t begin, int64_t end);
void resize_bfloat16(const Resize& job, int64_t begin, int64_t end);
// The same where every element has one tap, which is copied.
void pick_4_bytes(const Resize& job, int64_t begin, int64_t end);
void pick_2_bytes(const Resize& job, int64_t begin, int64_t end);

}  // namespace etarena
