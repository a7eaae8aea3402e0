// Keeps the lower (or the upper) triangle of matrices, and zeroes the rest.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const bool UPPER = false;

layout(push_constant) uniform Parameters {
  uint count;
  uint rows;
  uint columns;
  int diagonal;
  uint zero;  // constants of 8 bits would need another feature
};
layout(set = 0, binding = 0) readonly buffer Source { T source[]; };
layout(set = 0, binding = 1) writeonly buffer Target { T target[]; };

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint line = index / columns;
  int over = int(index - line * columns) - int(line % rows);  // how far right of the main diagonal
  bool kept = UPPER ? over >= diagonal : over <= diagonal;
  if (kept) target[index] = source[index];
#if ITEM == 8
  else target[index] = uvec2(0);
#else
  else target[index] = T(zero);
#endif
}
