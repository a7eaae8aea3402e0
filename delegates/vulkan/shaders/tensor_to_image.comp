// The planes of a tensor (1, CHANNELS, height, width) to texels of a storage image.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "colour.glsl"

#if VECTORS
layout(set = 0, binding = 0) readonly buffer Tensor { vec4 numbers[]; };
#else
layout(set = 0, binding = 0) readonly buffer Tensor { float numbers[]; };
#endif
#ifdef FORMAT
layout(set = 0, binding = 1, FORMAT) uniform writeonly image2D image;
#else
layout(set = 0, binding = 1) uniform writeonly image2D image;  // of any format
#endif
#include "colour_read.glsl"

void main() {
  uint first = first_texel();
  if (first >= texels) return;
  mat4 found = read_numbers(first);
  for (uint i = 0u; i < 4u && first + i < texels; ++i) imageStore(image, place_of(first + i), texel_of(found[i]));
}
