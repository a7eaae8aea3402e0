// 1 - texel, in place; in two or three dimensions.
#version 450

#ifndef IMAGE
#define IMAGE image2D
#define PLACE ivec2(gl_GlobalInvocationID.xy)
#endif
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, rgba8) uniform IMAGE texels;

void main() {
  imageStore(texels, PLACE, vec4(1.0) - imageLoad(texels, PLACE));
}
