// Each row minus its mean and divided by its standard deviation (or divided by its root mean square), then scaled and
// shifted by weights of each element of a row or of each channel. A workgroup has a row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "rows.glsl"

layout(constant_id = 0) const bool CENTERED = true;
layout(constant_id = 1) const bool BY_CHANNEL = false;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = F32;
layout(constant_id = 4) const int T_WEIGHT = F32;
layout(constant_id = 5) const bool HAS_WEIGHT = true;
layout(constant_id = 6) const bool HAS_BIAS = true;
layout(constant_id = 7) const bool STATISTICS = false;  // mean and 1/deviation of each row are results too
layout(constant_id = 8) const bool ALIGNED = false;     // whether rows, and what a channel has of them, are fours
layout(push_constant) uniform Parameters {
  uint count;
  uint rows;
  uint size;      // of a row
  uint groups;    // rows of a batch
  uint channels;  // in a row
  uint each;      // elements of a channel
  float epsilon;
};
READER(x, 0, T_IN)
READER(weight, 1, T_WEIGHT)
READER(bias, 2, T_WEIGHT)
WRITER(y, 3, T_OUT)
layout(set = 0, binding = 4) writeonly buffer Means { float means[]; };
layout(set = 0, binding = 5) writeonly buffer Deviations { float inverse_deviations[]; };

vec4 numbers(uint u) { return uintBitsToFloat(x_four(u, count)); }

// Four numbers of a row at 4u, zero beyond the row.
vec4 inside(vec4 v, uint u, uint begin) { return ALIGNED ? v : mix(vec4(0.0), v, in_row(u, begin, size)); }

// Which weight an element of a row has.
uint weight_of(uint row, uint j) {
  j = min(j, size - 1);
  return BY_CHANNEL ? row % groups * channels + j / each : j;
}

#define WEIGHTS(NAME)                                                                            \
  vec4 four_of_##NAME(uint row, uint u, uint begin) {                                                   \
    if (ALIGNED && BY_CHANNEL)                                                                   \
      return uintBitsToFloat(uvec4(NAME##_at(weight_of(row, 4 * u - begin))));                   \
    if (ALIGNED) return uintBitsToFloat(NAME##_four(u - begin / 4, size));                       \
    vec4 found;                                                                                  \
    for (uint k = 0; k < 4; k++) {                                                               \
      uint i = max(4 * u + k, begin) - begin;                                                    \
      found[k] = uintBitsToFloat(NAME##_at(weight_of(row, i)));                                  \
    }                                                                                            \
    return found;                                                                                \
  }
WEIGHTS(weight)
WEIGHTS(bias)

void main() {
  uint row = workgroup(), lane = gl_LocalInvocationID.x;
  if (row >= rows) return;
  uint begin = row * size, end = begin + size;
  // The mean is first + beyond: far from zero the differences are exact, and a float could not hold it.
  float first = 0.0, beyond = 0.0;
  if (CENTERED) {
    first = uintBitsToFloat(x_at(begin));
    vec4 sums = vec4(0.0);
    for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) sums += inside(numbers(u) - first, u, begin);
    beyond = sum_of_all(sums.x + sums.y + sums.z + sums.w) / float(size);
  }
  vec4 squares = vec4(0.0);
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    vec4 v = inside(numbers(u) - first - beyond, u, begin);
    squares += v * v;
  }
  float inverse = 1.0 / sqrt(sum_of_all(squares.x + squares.y + squares.z + squares.w) / float(size) + epsilon);
  if (STATISTICS && lane == 0) {
    means[row] = first + beyond;
    inverse_deviations[row] = inverse;
  }
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    vec4 v = (numbers(u) - first - beyond) * inverse;
    if (HAS_WEIGHT) v *= four_of_weight(row, u, begin);
    if (HAS_BIAS) v += four_of_bias(row, u, begin);
    uvec4 bits = floatBitsToUint(v);
    if (ALIGNED || (4 * u >= begin && 4 * u + 4 <= end)) {
      y_put(u, count, bits);
    } else {
      for (uint k = 0; k < 4; k++)
        if (4 * u + k >= begin && 4 * u + k < end) y_set(4 * u + k, bits[k]);
    }
  }
}
