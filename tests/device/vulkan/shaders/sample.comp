// Reads an image between its texels, at (x, y) / size, into a buffer of vectors.
#version 450

layout(local_size_x = 1) in;
layout(push_constant) uniform Parameters { vec2 size; };
layout(set = 0, binding = 0) uniform sampler2D picture;
layout(set = 0, binding = 1) writeonly buffer Out { vec4 y[]; };

void main() {
  y[gl_GlobalInvocationID.x] = textureLod(picture, vec2(gl_GlobalInvocationID.x, 0.5) / size, 0.0);
}
