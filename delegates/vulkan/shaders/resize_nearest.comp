// Resizes images (planes of height x width) to the nearest element, whatever its type.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const bool CENTERS = false;  // the nearest to the middle of a pixel, not to its corner

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];  // width and height of the result
  uint magics[5];
  ivec2 source_size;  // width, height
  vec2 scale;         // from places of the result to those of the source
};
layout(set = 0, binding = 0) readonly buffer Source { T source[]; };
layout(set = 0, binding = 1) writeonly buffer Target { T target[]; };

#include "division.glsl"

// As PyTorch finds it: the same size and twice the size are exact.
int nearest(int place, int size, int source_size, float scale) {
  if (CENTERS) return min(int((float(place) + 0.5) * scale), source_size - 1);
  if (size == source_size) return place;
  if (size == 2 * source_size) return place >> 1;
  return min(int(float(place) * scale), source_size - 1);
}

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint line = divide(index, magics[0], shifts, 0);
  uint plane = divide(line, magics[1], shifts, 1);
  int x = nearest(int(index - line * sizes[0]), int(sizes[0]), source_size.x, scale.x);
  int y = nearest(int(line - plane * sizes[1]), int(sizes[1]), source_size.y, scale.y);
  target[index] = source[(plane * source_size.y + y) * source_size.x + x];
}
