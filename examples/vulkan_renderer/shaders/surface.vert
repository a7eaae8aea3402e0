// A flat surface put at the place of its object; MIRRORED: under the ground, as its reflection.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "scene.glsl"

layout(constant_id = 1) const bool MIRRORED = false;
layout(location = 0) in vec3 position;
layout(location = 0) out vec3 world;
layout(location = 1) out vec3 local;

void main() {
  local = position;
  world = (objects[gl_InstanceIndex].place * vec4(position, 1.0)).xyz;
  gl_Position = view_projection * vec4(MIRRORED ? world * vec3(1.0, -1.0, 1.0) : world, 1.0);
}
