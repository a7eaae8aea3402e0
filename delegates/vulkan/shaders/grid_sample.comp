// Reads images at places from -1 to 1, for all channels.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "storage.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const bool CORNERS = false;  // align_corners
layout(constant_id = 1) const int MODE = 0;          // 0 bilinear, 1 nearest
layout(constant_id = 2) const int PADDING = 0;       // 0 zeros, 1 border, 2 reflection

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];  // points of an image
  uint magics[5];
  int width;
  int height;
  uint channels;
};
layout(set = 0, binding = 0) readonly buffer Source { STORED source[]; };
layout(set = 0, binding = 1) readonly buffer Grid { STORED grid[]; };
layout(set = 0, binding = 2) writeonly buffer Target { STORED target[]; };

#include "division.glsl"

// Into [low, high], as often as it takes.
float reflected(float place, float low, float high) {
  if (high <= low) return 0.0;
  float span = high - low, offset = abs(place - low);
  float turns = floor(offset / span), rest = offset - turns * span;
  return mod(turns, 2.0) < 0.5 ? low + rest : high - rest;
}

float place_of(float given, int size) {
  float place = CORNERS ? (given + 1.0) * 0.5 * float(size - 1) : ((given + 1.0) * float(size) - 1.0) * 0.5;
  if (PADDING == 2) place = CORNERS ? reflected(place, 0.0, float(size - 1)) : reflected(place, -0.5, float(size) - 0.5);
  if (PADDING != 0) place = clamp(place, 0.0, float(size - 1));
  // Far outside is as good as anywhere outside; what is no number too.
  return place >= -2.0 && place <= float(size) + 1.0 ? place : -2.0;
}

float read(uint plane, int x, int y) {
  bool inside = x >= 0 && y >= 0 && x < width && y < height;
  uint place = plane + uint(clamp(y, 0, height - 1) * width + clamp(x, 0, width - 1));
  return inside ? float(source[place]) : 0.0;
}

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint image = divide(index, magics[0], shifts, 0);
  uint point = index - image * sizes[0];
  float x = place_of(float(grid[index * 2]), width), y = place_of(float(grid[index * 2 + 1]), height);
  float left = MODE == 1 ? roundEven(x) : floor(x), top = MODE == 1 ? roundEven(y) : floor(y);
  int column = int(left), row = int(top);
  for (uint channel = 0; channel < channels; ++channel) {
    uint plane = (image * channels + channel) * uint(width * height);
    float found = read(plane, column, row);
    if (MODE == 0) {
      float above = mix(found, read(plane, column + 1, row), x - left);
      float below = mix(read(plane, column, row + 1), read(plane, column + 1, row + 1), x - left);
      found = mix(above, below, y - top);
    }
    target[(image * channels + channel) * sizes[0] + point] = STORED(found);
  }
}
