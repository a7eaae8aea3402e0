// Copies between strided places as copy_strided does, where another dimension is dense in the source than in the target:
// each invocation moves a block of 4 x 4 elements, read and written as vectors of four. Strides count such vectors.
#version 450
#extension GL_GOOGLE_include_directive : require

#ifndef ITEM
#define ITEM 4
#endif
#if ITEM == 4
#define FOUR uvec4
#elif ITEM == 2
#define FOUR uvec2
#else
#define FOUR uint
#endif

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint RANK = 6;

layout(push_constant) uniform Parameters {
  uint count;
  uint source_offset;
  uint target_offset;
  uint shifts;
  uint sizes[5];
  uint magics[5];
  uint source_strides[6];
  uint target_strides[6];
  uint source_row;  // from a row of the block to the next one
  uint target_row;
};
layout(set = 0, binding = 0) readonly buffer Source { FOUR source[]; };
layout(set = 0, binding = 1) writeonly buffer Target { FOUR target[]; };

#include "division.glsl"

// Element `column` of each row becomes a row.
FOUR gathered(FOUR a, FOUR b, FOUR c, FOUR d, int column) {
#if ITEM == 4
  return uvec4(a[column], b[column], c[column], d[column]);
#elif ITEM == 2
  int word = column >> 1, bit = (column & 1) * 16;
  uvec4 found = (uvec4(a[word], b[word], c[word], d[word]) >> bit) & 0xffffu;
  return uvec2(found.x | found.y << 16, found.z | found.w << 16);
#else
  uvec4 found = (uvec4(a, b, c, d) >> (column * 8)) & 0xffu;
  return found.x | found.y << 8 | found.z << 16 | found.w << 24;
#endif
}

void main() {
  uint rest = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (rest >= count) return;
  uint from = source_offset, to = target_offset;
  for (uint i = 0; i < RANK - 1; ++i) {
    uint outer = divide(rest, magics[i], shifts, i);
    uint place = rest - outer * sizes[i];
    from += place * source_strides[i];
    to += place * target_strides[i];
    rest = outer;
  }
  from += rest * source_strides[RANK - 1];
  to += rest * target_strides[RANK - 1];
  FOUR a = source[from], b = source[from + source_row];
  FOUR c = source[from + 2 * source_row], d = source[from + 3 * source_row];
  target[to] = gathered(a, b, c, d, 0);
  target[to + target_row] = gathered(a, b, c, d, 1);
  target[to + 2 * target_row] = gathered(a, b, c, d, 2);
  target[to + 3 * target_row] = gathered(a, b, c, d, 3);
}
