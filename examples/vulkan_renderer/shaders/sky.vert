// One triangle over everything, behind everything.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "scene.glsl"

layout(location = 0) out vec3 direction;

void main() {
  vec2 corner = vec2(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0);
  direction = (rays * vec4(corner, 1.0, 1.0)).xyz;
  gl_Position = vec4(corner, 1.0, 1.0);
}
