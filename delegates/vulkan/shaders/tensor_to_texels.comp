// The planes of a tensor (1, CHANNELS, height, width) to texels in a buffer, from where they are copied to an image.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "colour.glsl"
#include "texels.glsl"

#if VECTORS
layout(set = 0, binding = 0) readonly buffer Tensor { vec4 numbers[]; };
#else
layout(set = 0, binding = 0) readonly buffer Tensor { float numbers[]; };
#endif
layout(set = 0, binding = 1, std430) writeonly buffer Texels { Four fours[]; };
#include "colour_read.glsl"

void main() {
  uint first = first_texel();
  if (first >= texels) return;
  mat4 found = read_numbers(first);
  vec4 a = texel_of(found[0]), b = texel_of(found[1]), c = texel_of(found[2]), d = texel_of(found[3]);
  uint at = first / 4u;
#if KIND == 0
  fours[at] = uvec4(packUnorm4x8(a), packUnorm4x8(b), packUnorm4x8(c), packUnorm4x8(d));
#elif KIND == 1
  fours[at].first = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
  fours[at].second = uvec4(packHalf2x16(c.xy), packHalf2x16(c.zw), packHalf2x16(d.xy), packHalf2x16(d.zw));
#elif KIND == 2
  fours[at].a = a, fours[at].b = b, fours[at].c = c, fours[at].d = d;
#elif KIND == 3
  fours[at] = packUnorm4x8(vec4(a.r, b.r, c.r, d.r));
#elif KIND == 4
  fours[at] = uvec2(packHalf2x16(vec2(a.r, b.r)), packHalf2x16(vec2(c.r, d.r)));
#else
  fours[at] = vec4(a.r, b.r, c.r, d.r);
#endif
}
