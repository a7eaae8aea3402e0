// target[i] = source[i with its coordinate in one dimension replaced by index[i]], where target and index are dense and alike.
// Scattered the other way: target[i with ...] = source[i], source and index having the same coordinates.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint INDEX_WORDS = 1;
layout(constant_id = 1) const uint RANK = 6;
layout(constant_id = 2) const bool SCATTER = false;

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];
  uint magics[5];
  uint strides[6];       // where the index chooses, zero in its dimension; innermost first
  uint other_strides[6]; // of what is scattered
  uint stride;           // in the index's dimension
  int rows;
};
layout(set = 0, binding = 0) readonly buffer Source { T source[]; };
layout(set = 0, binding = 1) readonly buffer Index { int numbers[]; };
layout(set = 0, binding = 2) writeonly buffer Target { T target[]; };

#include "division.glsl"

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint rest = index, chosen = 0, other = 0;
  for (uint i = 0; i < RANK - 1; ++i) {
    uint outer = divide(rest, magics[i], shifts, i);
    uint place = rest - outer * sizes[i];
    chosen += place * strides[i];
    if (SCATTER) other += place * other_strides[i];
    rest = outer;
  }
  chosen += rest * strides[RANK - 1];
  if (SCATTER) other += rest * other_strides[RANK - 1];
  int row = numbers[index * INDEX_WORDS];
  row = row < 0 ? row + rows : row;
  if (SCATTER) {
    if (row >= 0 && row < rows) target[chosen + uint(row) * stride] = source[other];
  } else {
    target[index] = source[chosen + uint(clamp(row, 0, rows - 1)) * stride];
  }
}
