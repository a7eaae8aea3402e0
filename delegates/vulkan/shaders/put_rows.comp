// The reverse of take_rows: target[outer][index[m]][inner] = source[outer][m][inner]. Rows that are named twice get either;
// numbers outside are left out.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint INDEX_WORDS = 1;

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];
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
  row = row < 0 ? row + rows : row;
  if (row < 0 || row >= rows) return;
  target[(outer * rows + row) * sizes[0] + inner] = source[index];
}
