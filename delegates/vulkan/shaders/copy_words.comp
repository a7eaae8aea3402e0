#version 450
// Copies 32-bit words.
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer Source { uint source[]; };
layout(std430, binding = 1) writeonly buffer Target { uint target[]; };
layout(push_constant) uniform Push { uint count; };

void main() {
  const uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i < count) target[i] = source[i];
}
