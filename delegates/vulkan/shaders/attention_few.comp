// Scaled dot product attention for few queries: eight invocations have a query together. Each walks through every eighth key
// with a running maximum and sum; what they found is put together at the end.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define BOARD 1
#include "storage.glsl"
#include "lanes.glsl"
#include "attention.glsl"

void main() {
  head = gl_WorkGroupID.y;
  batch = gl_WorkGroupID.z;
  uint lane = gl_LocalInvocationID.x;
  uint row = gl_WorkGroupID.x * gl_WorkGroupSize.y + gl_LocalInvocationID.y, query = min(row, queries - 1);

  vec4 mine[WIDTH], sums[VALUE_WIDTH];
  [[unroll]] for (uint i = 0; i < WIDTH; i++) mine[i] = scale * load_query(query, i);
  [[unroll]] for (uint i = 0; i < VALUE_WIDTH; i++) sums[i] = vec4(0.0);
  float most = LOWEST, total = 0.0;

  uint end = end_of(query);
  for (uint key = begin_of(query) + lane; key < end; key += 8) {
    vec4 products = vec4(0.0);
    [[unroll]] for (uint i = 0; i < WIDTH; i++) products += mine[i] * load_key(key, i);
    float score = products.x + products.y + products.z + products.w;
    if (MASK != 0) score += load_mask(query, key);
    float highest = max(most, score), kept = exp(most - highest), part = exp(score - highest);
    most = highest;
    total = total * kept + part;
    [[unroll]] for (uint i = 0; i < VALUE_WIDTH; i++) sums[i] = sums[i] * kept + part * load_value(key, i);
  }

  vec4 told = vec4(most, total, 0.0, 0.0);
  float highest = LOWEST, all = 0.0;
  SHOW(0, told);
  SETTLE();
  [[unroll]] for (uint j = 0; j < 8; j++) highest = max(highest, SEE(0, told, j).x);
  [[unroll]] for (uint j = 0; j < 8; j++) {
    vec4 seen = SEE(0, told, j);
    all += seen.y * exp(seen.x - highest);
  }
  SETTLE();
  float share = (all > 0.0 ? 1.0 / all : 0.0) * exp(most - highest);
  [[unroll]] for (uint i = 0; i < VALUE_WIDTH; i++) {
    vec4 found = sums[i] * share, sum = vec4(0.0);
    SHOW(0, found);
    SETTLE();
    [[unroll]] for (uint j = 0; j < 8; j++) sum += SEE(0, found, j);
    SETTLE();
    if (lane == (i & 7u) && row < queries) store(row, i, sum);
  }
}
