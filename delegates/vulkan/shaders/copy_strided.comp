// Copies elements between strided places of two buffers. The host merges dimensions and widens elements first.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint RANK = 6;

layout(push_constant) uniform Parameters {
  uint count;
  uint source_offset;  // elements, as all strides; those of the innermost dimension come first
  uint target_offset;
  uint shifts;
  uint sizes[5];  // of all but the outermost dimension
  uint magics[5];
  uint source_strides[6];
  uint target_strides[6];
};
layout(set = 0, binding = 0) readonly buffer Source { T source[]; };
layout(set = 0, binding = 1) writeonly buffer Target { T target[]; };

#include "division.glsl"

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
  target[to] = source[from];
}
