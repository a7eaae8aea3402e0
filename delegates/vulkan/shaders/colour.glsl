// Texels of images and numbers of tensors: what both directions share. Each invocation works on four texels, counted
// along the rows from the top left, so that planes can be read and written as vectors.
#ifndef VECTORS
#define VECTORS 0  // 1: the number of texels is a multiple of 4
#endif

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const int CHANNELS = 3;         // of the tensor: 1, 3 or 4
layout(constant_id = 1) const int TEXEL_CHANNELS = 4;   // of the image: 1 or 4
layout(constant_id = 2) const bool ENCODED = false;     // texels are sRGB-encoded, numbers are linear light
layout(constant_id = 3) const float LOWEST = 0.0;       // of what can be written
layout(constant_id = 4) const float HIGHEST = 1.0;
layout(constant_id = 5) const bool SWAPPED = false;     // blue first

layout(push_constant) uniform Parameters {
  uint width;   // texels
  uint texels;
  uint unused[2];
  vec4 factor;  // of each channel
  vec4 offset;
};

uint first_texel() {
  return 4u * (gl_GlobalInvocationID.y * (gl_NumWorkGroups.x * gl_WorkGroupSize.x) + gl_GlobalInvocationID.x);
}

ivec2 place_of(uint texel) {
  return ivec2(texel % width, texel / width);
}

// IEC 61966-2-1
vec3 decoded(vec3 x) {
  return mix(x / 12.92, pow(max((x + 0.055) / 1.055, vec3(0.0)), vec3(2.4)), greaterThan(x, vec3(0.04045)));
}

vec3 encoded(vec3 x) {
  return mix(12.92 * x, 1.055 * pow(max(x, vec3(0.0)), vec3(1.0 / 2.4)) - 0.055, greaterThan(x, vec3(0.0031308)));
}

vec4 numbers_of(vec4 texel) {
  if (SWAPPED) texel = texel.bgra;
  if (ENCODED) texel.rgb = decoded(texel.rgb);
  if (CHANNELS == 1 && TEXEL_CHANNELS == 4) texel.r = dot(texel.rgb, vec3(0.2126, 0.7152, 0.0722));  // ITU-R BT.709
  return texel * factor + offset;
}

vec4 texel_of(vec4 number) {
  vec4 texel = number * factor + offset;
  if (CHANNELS == 1) texel = vec4(texel.rrr, 1.0);
  if (CHANNELS == 3) texel.a = 1.0;
  if (ENCODED) texel.rgb = encoded(texel.rgb);
  texel = mix(clamp(texel, LOWEST, HIGHEST), vec4(0.0), isnan(texel));
  return SWAPPED ? texel.bgra : texel;
}
