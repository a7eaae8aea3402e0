// Softmax along the middle dimension of (outer, size, inner), or its logarithm. Without inner dimension a workgroup has a
// row; else each invocation goes down four columns, or one.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "mathematics.glsl"
#include "rows.glsl"

layout(constant_id = 0) const bool LOGARITHM = false;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = F32;
layout(constant_id = 4) const int COLUMNS = 0;  // 0: rows; else how many at a time, 1 or 4
layout(constant_id = 5) const bool ALIGNED = false;  // whether rows begin at multiples of four
layout(push_constant) uniform Parameters {
  uint count;
  uint outer;
  uint size;
  uint inner;
};
READER(x, 0, T_IN)
WRITER(y, 1, T_OUT)

vec4 numbers(uint u, uint begin) {
  vec4 v = uintBitsToFloat(x_four(u, count));
  return ALIGNED ? v : mix(vec4(-INFINITE), v, in_row(u, begin, size));
}

vec4 result(vec4 v, vec4 largest, vec4 sum) {
  return LOGARITHM ? v - largest - log_of(sum) : exp_of(v - largest) / sum;
}

void softmax_row() {
  uint row = workgroup(), lane = gl_LocalInvocationID.x;
  if (row >= outer) return;
  uint begin = row * size, end = begin + size;
  vec4 most = vec4(-INFINITE);
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    vec4 v = numbers(u, begin);
    most = mix(most, v, bvec4(uvec4(greaterThan(v, most)) | uvec4(isnan(v))));
  }
  vec2 halves = mix(most.xy, most.zw, bvec2(uvec2(greaterThan(most.zw, most.xy)) | uvec2(isnan(most.zw))));
  float largest = largest_of_all(halves.x > halves.y || isnan(halves.x) ? halves.x : halves.y);
  vec4 sums = vec4(0.0);
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    vec4 v = exp_of(numbers(u, begin) - largest);
    sums += ALIGNED ? v : mix(vec4(0.0), v, in_row(u, begin, size));
  }
  float sum = sum_of_all(sums.x + sums.y + sums.z + sums.w);
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    uvec4 bits = floatBitsToUint(result(numbers(u, begin), vec4(largest), vec4(sum)));
    if (ALIGNED || (4 * u >= begin && 4 * u + 4 <= end)) {
      y_put(u, count, bits);
    } else {
      for (uint k = 0; k < 4; k++)
        if (4 * u + k >= begin && 4 * u + k < end) y_set(4 * u + k, bits[k]);
    }
  }
}

vec4 column(uint at) { return uintBitsToFloat(COLUMNS == 4 ? x_four(at / 4, count) : uvec4(x_at(at))); }

void softmax_columns() {
  uint i = invocation(), across = inner / COLUMNS;
  if (i >= outer * across) return;
  uint row = i / across, begin = row * size * inner + (i - row * across) * COLUMNS;
  vec4 most = vec4(-INFINITE), sum = vec4(0.0);
  for (uint r = 0; r < size; r++) {
    vec4 v = column(begin + r * inner);
    most = mix(most, v, bvec4(uvec4(greaterThan(v, most)) | uvec4(isnan(v))));
  }
  for (uint r = 0; r < size; r++) sum += exp_of(column(begin + r * inner) - most);
  for (uint r = 0; r < size; r++) {
    uint at = begin + r * inner;
    uvec4 bits = floatBitsToUint(result(column(at), most, sum));
    if (COLUMNS == 4) y_put(at / 4, count, bits);
    else y_set(at, bits.x);
  }
}

void main() {
  if (COLUMNS == 0) softmax_row();
  else softmax_columns();
}
