// What sums, products and what is resized may apply to floats before they are written; numbered as in activation.glsl, which
// knows more.
layout(constant_id = 20) const int ACTIVATION = 0;
layout(constant_id = 21) const float LOWEST = 0.0;
layout(constant_id = 22) const float HIGHEST = 0.0;

vec4 activated(vec4 x) {
  if (ACTIVATION == 1) return mix(max(x, vec4(0.0)), x, isnan(x));
  if (ACTIVATION == 2) return mix(min(max(x, vec4(LOWEST)), vec4(HIGHEST)), x, isnan(x));
  return x;
}
