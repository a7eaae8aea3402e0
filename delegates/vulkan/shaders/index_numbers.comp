// Makes one row number of the numbers in several dimensions: target = target * rows + number, with number in its range.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint INDEX_WORDS = 1;
layout(constant_id = 1) const bool FIRST = true;  // nothing is in the target yet

layout(push_constant) uniform Parameters {
  uint count;
  int rows;
};
layout(set = 0, binding = 0) readonly buffer Index { int numbers[]; };
layout(set = 0, binding = 1) buffer Target { int target[]; };

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  int row = numbers[index * INDEX_WORDS];
  row = clamp(row < 0 ? row + rows : row, 0, rows - 1);
  target[index] = FIRST ? row : target[index] * rows + row;
}
