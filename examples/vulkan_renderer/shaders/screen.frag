// The screen in the scene: it shows the picture that was given, seen from both sides.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "scene.glsl"

layout(set = 0, binding = 1) uniform sampler2D picture;
layout(location = 0) in vec3 world;
layout(location = 1) in vec3 local;
layout(location = 0) out vec4 colour;

void main() {
  vec2 at = vec2(0.5 + 0.5 * local.x, 0.5 - 0.5 * local.y);
  vec3 shown = clamp(texture(picture, at).rgb, 0.0, 1.0);
  shown = ENCODED ? (screen.y > 0.5 ? shown : encode(shown)) : (screen.y > 0.5 ? decode(shown) : shown);
  vec2 edge = abs(local.xy);
  float frame = max(edge.x * screen.z - screen.z + 0.035, edge.y - 1.0 + 0.035);
  float is_frame = gl_FrontFacing ? smoothstep(0.0, fwidth(frame), frame) : 1.0;
  float facing = abs(normalize(eye.xyz - world).z);  // the screen stands across z
  colour = mix(vec4(shown * screen.x * mix(0.7, 1.0, facing), 1.0), texel(vec3(0.02, 0.022, 0.03)), is_frame);
}
