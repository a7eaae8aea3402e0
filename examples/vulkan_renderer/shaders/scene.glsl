// What all shaders of the scene share: the frame's constants, light, sky and the way a colour becomes a texel.
const int OBJECTS = 16, OCCLUDERS = 8;

struct Object {
  mat4 place;    // to the world
  vec4 colour;   // linear; a: how metallic
  vec4 pattern;  // x: stripes per unit, y: how sharp its highlights are
};

layout(set = 0, binding = 0) uniform Scene {
  mat4 view_projection;
  mat4 rays;          // from clip space to directions in the world
  vec4 eye;           // w: seed of this frame's noise
  vec4 light;         // direction to it; w: half angle under which it is seen
  vec4 screen;        // x: how bright, y: 1 if its texels are sRGB-encoded, z: width / height
  vec4 quality;       // x: 1 for one random shadow ray per texel instead of the smooth shadow
  vec4 occluders[OCCLUDERS];  // spheres that cast shadows: centre and radius
  Object objects[OBJECTS];
};

// Colours leave the shaders encoded for 8-bit targets, linear for float targets.
layout(constant_id = 0) const bool ENCODED = true;

vec3 encode(vec3 linear) {  // IEC 61966-2-1 to a quarter of an 8-bit step (I. Taylor's fit), as powers are slow on CPUs
  vec3 a = sqrt(linear), b = sqrt(a), c = sqrt(b);
  vec3 curve = 0.662002687 * a + 0.684122060 * b - 0.323583601 * c - 0.0225411470 * linear;
  return mix(12.92 * linear, curve, greaterThan(linear, vec3(0.0031308)));
}

vec3 decode(vec3 encoded) {
  return mix(encoded / 12.92, pow((encoded + 0.055) / 1.055, vec3(2.4)), greaterThan(encoded, vec3(0.04045)));
}

vec4 texel(vec3 light_seen) {
  vec3 x = light_seen;  // a filmic curve (K. Narkowicz's fit of ACES)
  x = clamp(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0.0, 1.0);
  return vec4(ENCODED ? encode(x) : x, 1.0);
}

vec3 sky(vec3 direction) {
  float up = max(direction.y, 0.0);
  vec3 colour = mix(vec3(0.42, 0.2, 0.13), vec3(0.012, 0.03, 0.11), sqrt(min(1.6 * up, 1.0)));
  float sun = max(dot(direction, light.xyz), 0.0);
  return colour + vec3(1.0, 0.55, 0.25) * (0.35 * pow(sun, 12.0) + 4.0 * smoothstep(0.9985, 0.9992, sun));
}

uint hashed(uint x) {  // PCG (M. Jarzynski and M. Olano, 2020)
  uint state = x * 747796405u + 2891336453u;
  uint word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}

vec2 random(vec2 where) {
  uint first = hashed(uint(where.x) + hashed(uint(where.y) + hashed(uint(eye.w))));
  return vec2(first, hashed(first)) / 4294967295.0;
}

// How much of the light reaches a point: 1 without shadow. `self` is the object's own sphere, or -1.
float shadow(vec3 from, vec2 where, int self) {
  vec3 towards = light.xyz;
  bool one_ray = quality.x > 0.5;
  if (one_ray) {  // a random point of the light
    vec2 r = random(where);
    vec3 side = normalize(cross(towards, vec3(0.0, 1.0, 0.3))), up = cross(side, towards);
    float angle = 6.2831853 * r.y;
    towards = normalize(towards + tan(light.w) * sqrt(r.x) * (cos(angle) * side + sin(angle) * up));
  }
  float open = 1.0;
  for (int i = 0; i < OCCLUDERS; ++i) {
    if (i == self) continue;
    vec3 centre = occluders[i].xyz - from;
    float along = dot(centre, towards);
    if (along <= 0.0) continue;
    float beside = sqrt(max(dot(centre, centre) - along * along, 0.0)) - occluders[i].w;
    open *= one_ray ? step(0.0, beside) : smoothstep(-0.5, 1.0, beside / (along * tan(light.w) + 0.02));
  }
  return open;
}

// Light that the other objects keep from the sky above a point.
float openness(vec3 from, vec3 normal, int self) {
  float open = 1.0;
  for (int i = 0; i < OCCLUDERS; ++i) {
    if (i == self) continue;
    vec3 centre = occluders[i].xyz - from;
    float distance_squared = dot(centre, centre);
    float covered = max(dot(normal, centre), 0.0) * occluders[i].w * occluders[i].w;
    open *= 1.0 - min(covered * inversesqrt(distance_squared) / distance_squared, 0.9);
  }
  return open;
}
