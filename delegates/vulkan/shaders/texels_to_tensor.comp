// Texels in a buffer to the planes of a tensor (1, CHANNELS, height, width).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "colour.glsl"
#include "texels.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Texels { Four fours[]; };
#if VECTORS
layout(set = 0, binding = 1) writeonly buffer Tensor { vec4 numbers[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Tensor { float numbers[]; };
#endif
#include "colour_write.glsl"

void main() {
  uint first = first_texel();
  if (first >= texels) return;
  Four four = fours[first / 4u];
  vec4 texel[4];
#if KIND == 0
  for (int i = 0; i < 4; ++i) texel[i] = unpackUnorm4x8(four[i]);
#elif KIND == 1
  for (int i = 0; i < 2; ++i) {
    texel[i] = vec4(unpackHalf2x16(four.first[2 * i]), unpackHalf2x16(four.first[2 * i + 1]));
    texel[i + 2] = vec4(unpackHalf2x16(four.second[2 * i]), unpackHalf2x16(four.second[2 * i + 1]));
  }
#elif KIND == 2
  texel[0] = four.a, texel[1] = four.b, texel[2] = four.c, texel[3] = four.d;
#else
#if KIND == 3
  vec4 singles = unpackUnorm4x8(four);
#elif KIND == 4
  vec4 singles = vec4(unpackHalf2x16(four.x), unpackHalf2x16(four.y));
#else
  vec4 singles = four;
#endif
  for (int i = 0; i < 4; ++i) texel[i] = vec4(singles[i], 0.0, 0.0, 1.0);
#endif
  write_numbers(first, numbers_of(texel[0]), numbers_of(texel[1]), numbers_of(texel[2]), numbers_of(texel[3]));
}
