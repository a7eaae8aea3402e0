// Resizes images (planes of height x width) by linear interpolation.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "storage.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const bool CORNERS = false;  // align_corners

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];  // width and height of the result
  uint magics[5];
  ivec2 source_size;  // width, height
  vec2 scale;         // from places of the result to those of the source
};
layout(set = 0, binding = 0) readonly buffer Source { STORED source[]; };
layout(set = 0, binding = 1) writeonly buffer Target { STORED target[]; };

#include "division.glsl"

// Place in the source of each result, with the fraction.
float place_of(uint place, float scale) {
  return CORNERS ? float(place) * scale : max((float(place) + 0.5) * scale - 0.5, 0.0);
}

float read(uint place) { return float(source[place]); }

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint line = divide(index, magics[0], shifts, 0);
  uint plane = divide(line, magics[1], shifts, 1);
  vec2 place = vec2(place_of(index - line * sizes[0], scale.x), place_of(line - plane * sizes[1], scale.y));
  ivec2 first = min(ivec2(place), source_size - 1);
  ivec2 second = min(first + 1, source_size - 1);
  vec2 part = clamp(place - vec2(first), 0.0, 1.0);
  uint above = (plane * source_size.y + first.y) * source_size.x, below = (plane * source_size.y + second.y) * source_size.x;
  float top = mix(read(above + first.x), read(above + second.x), part.x);
  float bottom = mix(read(below + first.x), read(below + second.x), part.x);
  target[index] = STORED(mix(top, bottom, part.y));
}
