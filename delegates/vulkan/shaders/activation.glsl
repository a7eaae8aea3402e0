// What is applied to a result before it is written, chosen when the pipeline is made.
layout(constant_id = 20) const int ACTIVATION = 0;
layout(constant_id = 21) const float LOWEST = 0.0;
layout(constant_id = 22) const float HIGHEST = 0.0;

const int RELU = 1, CLAMP = 2, HARDSWISH = 3, SILU = 4, GELU = 5, GELU_TANH = 6;

// erf by Abramowitz and Stegun 7.1.26; the error is below 1.5e-7.
vec4 erf_of(vec4 x) {
  vec4 t = 1.0 / (1.0 + 0.3275911 * abs(x));
  vec4 poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return sign(x) * (1.0 - poly * exp(-x * x));
}

vec4 activate(vec4 x) {
  if (ACTIVATION == RELU) return max(x, vec4(0.0));
  if (ACTIVATION == CLAMP) return clamp(x, vec4(LOWEST), vec4(HIGHEST));
  if (ACTIVATION == HARDSWISH) return x * clamp(x + 3.0, vec4(0.0), vec4(6.0)) / 6.0;
  if (ACTIVATION == SILU) return x / (1.0 + exp(-x));
  if (ACTIVATION == GELU) return 0.5 * x * (1.0 + erf_of(x * 0.70710678));
  if (ACTIVATION == GELU_TANH) {
    // exp of the clamped argument: tanh is 1 in float long before it overflows.
    vec4 e = exp(clamp(1.59576912 * (x + 0.044715 * x * x * x), vec4(-60.0), vec4(60.0)));
    return x * (1.0 - 1.0 / (1.0 + e));
  }
  return x;
}
