// Copies rows by their numbers: target[outer][m][inner] = source[outer][index[m]][inner]. A negative number counts from the
// end; one outside is moved to the nearest row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint INDEX_WORDS = 1;  // 2: int64, of which the low word counts

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];  // inner, number of indices
  uint magics[5];
  int rows;
};
layout(set = 0, binding = 0) readonly buffer Source { T source[]; };
layout(set = 0, binding = 1) readonly buffer Index { int numbers[]; };
layout(set = 0, binding = 2) writeonly buffer Target { T target[]; };

#include "division.glsl"

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint line = divide(index, magics[0], shifts, 0);
  uint inner = index - line * sizes[0];
  uint outer = divide(line, magics[1], shifts, 1);
  int row = numbers[(line - outer * sizes[1]) * INDEX_WORDS];
  row = clamp(row < 0 ? row + rows : row, 0, rows - 1);
  target[index] = source[(outer * rows + row) * sizes[0] + inner];
}
