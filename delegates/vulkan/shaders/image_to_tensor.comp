// Texels of an image to the planes of a tensor (1, CHANNELS, height, width).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "colour.glsl"

layout(set = 0, binding = 0) uniform sampler2D image;
#if VECTORS
layout(set = 0, binding = 1) writeonly buffer Tensor { vec4 numbers[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Tensor { float numbers[]; };
#endif
#include "colour_write.glsl"

vec4 numbers_at(uint texel) {
  return numbers_of(texelFetch(image, place_of(min(texel, texels - 1u)), 0));
}

void main() {
  uint first = first_texel();
  if (first >= texels) return;
  write_numbers(first, numbers_at(first), numbers_at(first + 1u), numbers_at(first + 2u), numbers_at(first + 3u));
}
