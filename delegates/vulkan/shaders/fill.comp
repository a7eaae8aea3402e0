// Fills a buffer with a number of 32 bits.
#version 450

layout(local_size_x_id = 100) in;
layout(push_constant) uniform Parameters {
  uint count;  // words
  uint value;
};
layout(set = 0, binding = 0) writeonly buffer Out { uint words[]; };

void main() {
  uint i = gl_GlobalInvocationID.y * (gl_NumWorkGroups.x * gl_WorkGroupSize.x) + gl_GlobalInvocationID.x;
  if (i >= count) return;
  words[i] = value;
}
