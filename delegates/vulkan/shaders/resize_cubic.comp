// Resizes images (planes of height x width) by cubic interpolation.
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

const float A = -0.75;  // PyTorch's

// Of the four neighbours, for a place that is `t` behind the second (Keys, "Cubic convolution interpolation for digital image
// processing", 1981).
vec4 weights(float t) {
  vec4 x = vec4(t + 1.0, t, 1.0 - t, 2.0 - t);
  vec4 near = ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
  vec4 far = ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
  return vec4(far.x, near.y, near.z, far.w);
}

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint line = divide(index, magics[0], shifts, 0);
  uint plane = divide(line, magics[1], shifts, 1);
  vec2 place = vec2(index - line * sizes[0], line - plane * sizes[1]);
  place = CORNERS ? place * scale : (place + 0.5) * scale - 0.5;
  ivec2 first = ivec2(floor(place));
  vec4 across = weights(place.x - floor(place.x)), down = weights(place.y - floor(place.y));
  ivec4 columns = clamp(first.x + ivec4(-1, 0, 1, 2), 0, source_size.x - 1);
  ivec4 rows = clamp(first.y + ivec4(-1, 0, 1, 2), 0, source_size.y - 1);
  float sum = 0.0;
  for (int i = 0; i < 4; ++i) {
    uint row = (plane * source_size.y + rows[i]) * source_size.x;
    vec4 found = vec4(source[row + columns.x], source[row + columns.y], source[row + columns.z], source[row + columns.w]);
    sum += down[i] * dot(across, found);
  }
  target[index] = STORED(sum);
}
