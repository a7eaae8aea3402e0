// A lit object: sun with shadow, sky, highlight, and stripes if it has any.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "scene.glsl"

layout(constant_id = 1) const bool MIRRORED = false;
layout(location = 0) in vec3 world;
layout(location = 1) in vec3 facing;
layout(location = 2) in vec3 local;
layout(location = 3) flat in int index;
layout(location = 0) out vec4 colour;

void main() {
  Object object = objects[index];
  vec3 n = normalize(facing), seen_from = MIRRORED ? eye.xyz * vec3(1.0, -1.0, 1.0) : eye.xyz;
  vec3 v = normalize(seen_from - world), base = object.colour.rgb;
  if (object.pattern.x > 0.0) {
    float wave = sin(object.pattern.x * (local.y + 0.5 * local.x));
    base = mix(base, vec3(0.9, 0.88, 0.82), smoothstep(-0.15, 0.15, wave));
  }
  float sun = max(dot(n, light.xyz), 0.0);
  if (sun > 0.0) sun *= shadow(world + 0.02 * n, gl_FragCoord.xy, index);
  float metal = object.colour.a, rim = pow(1.0 - max(dot(n, v), 0.0), 5.0);
  vec3 ambient = mix(vec3(0.16, 0.13, 0.12), vec3(0.34, 0.38, 0.5), 0.5 + 0.5 * n.y) * openness(world, n, index);
  vec3 half_way = normalize(v + light.xyz), mirror = reflect(-v, n);
  vec3 shine = mix(vec3(0.04), base, metal);
  float highlight = pow(max(dot(n, half_way), 0.0), object.pattern.y);
  vec3 diffuse = (1.0 - metal) * base * (ambient + sun * vec3(1.5, 1.2, 0.95));
  vec3 reflected = mirror.y > 0.0 ? sky(mirror) : vec3(0.14, 0.13, 0.14);
  colour = texel(diffuse + (shine + (1.0 - shine) * rim) * reflected + 3.0 * sun * highlight * (0.25 + shine));
}
