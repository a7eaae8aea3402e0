// The ground: polished tiles over the mirrored objects, fading into the sky.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "scene.glsl"

layout(location = 0) in vec3 world;
layout(location = 1) in vec3 local;
layout(location = 0) out vec4 colour;

void main() {
  vec3 to_eye = eye.xyz - world;
  float distance_to_eye = length(to_eye), facing = to_eye.y / distance_to_eye;
  vec2 width = max(fwidth(world.xz), vec2(1e-4));
  vec2 tile = abs(fract(world.xz) - 0.5), checks = (tile - 0.25) / width;
  vec2 sharp = clamp(checks, -1.0, 1.0) * smoothstep(0.6, 0.1, width);  // grey far away
  vec3 base = mix(vec3(0.012, 0.014, 0.022), vec3(0.26, 0.25, 0.24), 0.5 + 0.5 * sharp.x * sharp.y);
  float sun = light.y * shadow(world, gl_FragCoord.xy, -1);
  vec3 lit = base * (vec3(0.17, 0.2, 0.28) * openness(world, vec3(0.0, 1.0, 0.0), -1) + sun * vec3(1.5, 1.2, 0.95));
  vec3 far = sky(normalize(vec3(-to_eye.x, 0.02 * distance_to_eye, -to_eye.z)));
  float haze = 1.0 - exp(-0.0012 * distance_to_eye * distance_to_eye);
  haze = max(haze, smoothstep(0.9, 1.0, length(local)));  // round, not square
  float mirrors = 0.1 + 0.5 * pow(1.0 - facing, 4.0);
  colour = vec4(texel(mix(lit, far, haze)).rgb, max(1.0 - mirrors, haze));
}
