// Scaled dot product attention. Each invocation has a query and walks through the keys in blocks of eight, with a running
// maximum and sum (Dao et al., "FlashAttention", 2022). Eight invocations load the eight keys and values for each other.
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
  uint first = (gl_WorkGroupID.x * gl_WorkGroupSize.y + gl_LocalInvocationID.y) * 8;
  uint row = first + lane, query = min(row, queries - 1);

  vec4 mine[WIDTH], sums[VALUE_WIDTH];
  [[unroll]] for (uint i = 0; i < WIDTH; i++) mine[i] = scale * load_query(query, i);
  [[unroll]] for (uint i = 0; i < VALUE_WIDTH; i++) sums[i] = vec4(0.0);
  float most = LOWEST, total = 0.0;

  uint begin = begin_of(query), end = end_of(query);
#ifdef SHARED_LANES
  // All of a workgroup go round as often: they wait for each other.
  uint start = begin_of(gl_WorkGroupID.x * gl_WorkGroupSize.y * 8), last = end_of((gl_WorkGroupID.x + 1) * gl_WorkGroupSize.y * 8 - 1);
#else
  uint start = begin_of(first), last = end_of(first + 7);
#endif
  for (; start < last; start += 8) {
    uint key = min(start + lane, keys - 1);
    float scores[8];
    [[unroll]] for (uint j = 0; j < 8; j++) scores[j] = 0.0;
    [[unroll]] for (uint i = 0; i < WIDTH; i++) {
      vec4 loaded = load_key(key, i);
      SHOW(0, loaded);
      SETTLE();
      [[unroll]] for (uint j = 0; j < 8; j++) scores[j] += dot(mine[i], SEE(0, loaded, j));
      SETTLE();
    }
    float highest = most;
    if (MASK != 0) {
      // A mask that is the same for all queries is loaded for each other, too.
      vec4 loaded = vec4(SAME_MASK ? load_mask(0, key) : 0.0);
      SHOW(0, loaded);
      SETTLE();
      [[unroll]] for (uint j = 0; j < 8; j++) {
        scores[j] += SAME_MASK ? SEE(0, loaded, j).x : load_mask(query, min(start + j, keys - 1));
      }
      SETTLE();
    }
    [[unroll]] for (uint j = 0; j < 8; j++) {
      if (start + j < begin || start + j >= end) scores[j] = NOTHING;
      highest = max(highest, scores[j]);
    }
    float kept = exp(most - highest);
    most = highest;
    total *= kept;
    [[unroll]] for (uint j = 0; j < 8; j++) {
      scores[j] = exp(scores[j] - most);
      total += scores[j];
    }
    [[unroll]] for (uint i = 0; i < VALUE_WIDTH; i++) {
      vec4 loaded = load_value(key, i), sum = sums[i] * kept;
      SHOW(0, loaded);
      SETTLE();
      [[unroll]] for (uint j = 0; j < 8; j++) sum += scores[j] * SEE(0, loaded, j);
      SETTLE();
      sums[i] = sum;
    }
  }
  if (row >= queries) return;
  float share = total > 0.0 ? 1.0 / total : 0.0;
  [[unroll]] for (uint i = 0; i < VALUE_WIDTH; i++) store(row, i, sums[i] * share);
}
