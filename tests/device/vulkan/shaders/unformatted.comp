// Writes an image whose format the shader does not know.
#version 450

layout(local_size_x = 1) in;
layout(set = 0, binding = 0) writeonly uniform image2D texels;

void main() { imageStore(texels, ivec2(gl_GlobalInvocationID.xy), vec4(1.0, 0.5, 0.0, 1.0)); }
