// Resizes images (planes of height x width) by linear interpolation; another tensor may be added to the result.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "storage.glsl"
#include "simple_activation.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const bool CORNERS = false;  // align_corners
// Each invocation makes four results of a row, of rows that are multiples of four and more than three times as wide as
// the source's: they lie between three of its columns.
layout(constant_id = 1) const bool FOUR = false;
layout(constant_id = 2) const bool ADDS = false;

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];  // width and height of the result
  uint magics[5];
  ivec2 source_size;  // width, height
  vec2 scale;         // from places of the result to those of the source
  vec2 factors;       // of what is resized, and of what is added to it
};
layout(set = 0, binding = 0) readonly buffer Source { STORED source[]; };
layout(set = 0, binding = 1) readonly buffer Addend { STORED addend[]; };  // the source, not read, without ADDS
layout(set = 0, binding = 1) readonly buffer Addend4 { STORED4 addend4[]; };
layout(set = 0, binding = 2) writeonly buffer Target { STORED target[]; };
layout(set = 0, binding = 2) writeonly buffer Target4 { STORED4 target4[]; };

#include "division.glsl"

// Place in the source of each result, with the fraction.
float place_of(uint place, float scale) {
  return CORNERS ? float(place) * scale : max((float(place) + 0.5) * scale - 0.5, 0.0);
}

float read(uint place) { return float(source[place]); }

void make_four(uint index, uint x, uint above, uint below, float down) {
  int begin = int(place_of(x, scale.x)), last = source_size.x - 1;
  float columns[3];
  for (int i = 0; i < 3; ++i) {
    int column = min(begin + i, last);
    columns[i] = mix(read(above + column), read(below + column), down);
  }
  vec4 found;
  for (uint i = 0u; i < 4u; ++i) {
    float place = place_of(x + i, scale.x);
    int first = min(int(place), last);
    bool next = first > begin;
    found[i] = mix(next ? columns[1] : columns[0], next ? columns[2] : columns[1], clamp(place - first, 0.0, 1.0));
  }
  if (ADDS) found = factors.x * found + factors.y * vec4(addend4[index / 4u]);
  target4[index / 4u] = STORED4(activated(found));
}

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (FOUR) index *= 4u;
  if (index >= count) return;
  uint line = divide(index, magics[0], shifts, 0);
  uint plane = divide(line, magics[1], shifts, 1);
  vec2 place = vec2(place_of(index - line * sizes[0], scale.x), place_of(line - plane * sizes[1], scale.y));
  ivec2 first = min(ivec2(place), source_size - 1);
  ivec2 second = min(first + 1, source_size - 1);
  vec2 part = clamp(place - vec2(first), 0.0, 1.0);
  uint above = (plane * source_size.y + first.y) * source_size.x, below = (plane * source_size.y + second.y) * source_size.x;
  if (FOUR) {
    make_four(index, index - line * sizes[0], above, below, part.y);
    return;
  }
  float top = mix(read(above + first.x), read(above + second.x), part.x);
  float bottom = mix(read(below + first.x), read(below + second.x), part.x);
  float found = mix(top, bottom, part.y);
  if (ADDS) found = factors.x * found + factors.y * float(addend[index]);
  target[index] = STORED(activated(vec4(found)).x);
}
