// The sky; below the horizon what the ground mirrors of it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "scene.glsl"

layout(location = 0) in vec3 direction;
layout(location = 0) out vec4 colour;

void main() {
  vec3 towards = normalize(direction);
  colour = texel(sky(vec3(towards.x, abs(towards.y), towards.z)));
}
