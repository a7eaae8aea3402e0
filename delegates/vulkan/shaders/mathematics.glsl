// Functions where GLSL promises too little: about infinities and NaN, or near zero.

#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)
#define INFINITE uintBitsToFloat(0x7f800000u)

vec4 keep_nan(vec4 x, vec4 y) { return mix(y, x, isnan(x)); }

vec4 exp_of(vec4 x) {
  vec4 inside = exp(clamp(x, vec4(-103.9), vec4(88.7)));
  inside = mix(inside, vec4(INFINITE), greaterThan(x, vec4(88.72284)));
  return keep_nan(x, mix(inside, vec4(0.0), lessThan(x, vec4(-103.9))));
}

vec4 log_of(vec4 x) {
  vec4 inside = log(x);
  inside = mix(inside, x, equal(x, vec4(INFINITE)));
  inside = mix(inside, vec4(-INFINITE), equal(x, vec4(0.0)));
  return keep_nan(x, mix(inside, vec4(NOT_A_NUMBER), lessThan(x, vec4(0.0))));
}

vec4 log1p_of(vec4 x) {  // Goldberg, "What every computer scientist should know about floating-point arithmetic", 4
  vec4 w = 1.0 + x;
  vec4 corrected = x * log_of(w) / (w - 1.0);
  return mix(corrected, mix(x, log_of(w), equal(w, vec4(INFINITE))), bvec4(uvec4(equal(w, vec4(1.0))) | uvec4(equal(w, vec4(INFINITE)))));
}

vec4 expm1_of(vec4 x) {
  vec4 series = x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))));
  return mix(exp_of(x) - 1.0, series, lessThan(abs(x), vec4(0.3)));
}

vec4 tanh_of(vec4 x) {
  vec4 square = x * x;
  vec4 series = x * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0 + square * (-17.0 / 315.0 + square * (62.0 / 2835.0)))));
  vec4 far = sign(x) * (1.0 - 2.0 / (exp_of(2.0 * abs(x)) + 1.0));
  return keep_nan(x, mix(far, series, lessThan(abs(x), vec4(0.4))));
}

// Abramowitz and Stegun, 7.1.26, with the power series near zero, where that one is exact only absolutely.
vec4 erfc_of_positive(vec4 x) {
  vec4 t = 1.0 / (1.0 + 0.3275911 * x);
  vec4 polynomial = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return polynomial * exp_of(-x * x);
}

vec4 erf_of(vec4 x) {
  vec4 s = x * x;
  vec4 series = x * 1.1283791671 * (1.0 + s * (-1.0 / 3.0 + s * (1.0 / 10.0 + s * (-1.0 / 42.0 + s * (1.0 / 216.0 + s * (-1.0 / 1320.0))))));
  vec4 far = sign(x) * (1.0 - erfc_of_positive(abs(x)));
  return keep_nan(x, mix(far, series, lessThan(abs(x), vec4(0.6))));
}

vec4 sigmoid_of(vec4 x) { return 1.0 / (1.0 + exp_of(-x)); }

vec4 gelu_of(vec4 x) {
  vec4 negative_side = 0.5 * x * erfc_of_positive(abs(x) * 0.70710678);  // no cancellation there
  return mix(0.5 * x * (1.0 + erf_of(x * 0.70710678)), negative_side, lessThan(x, vec4(-0.6)));
}

vec4 gelu_tanh_of(vec4 x) {
  // 0.5 (1 + tanh(z)) = sigmoid(2z)
  return x * sigmoid_of(1.5957691216 * (x + 0.044715 * x * x * x));
}

vec4 softplus_of(vec4 x, float beta, float threshold) {
  vec4 scaled = x * beta;
  return mix(log1p_of(exp_of(scaled)) / beta, x, greaterThan(scaled, vec4(threshold)));
}

// With the sign of a, as C has it.
vec4 fmod_of(vec4 a, vec4 b) {
  vec4 m = abs(b), n = abs(a);
  vec4 r = fma(-trunc(n / m), m, n);
  r = mix(r, r + m, lessThan(r, vec4(0.0)));
  r = mix(r, r - m, greaterThanEqual(r, m));
  r = mix(r, n, isinf(m));
  vec4 result = mix(r, -r, lessThan(a, vec4(0.0)));
  bvec4 none = bvec4(uvec4(equal(m, vec4(0.0))) | uvec4(isinf(a)) | uvec4(isnan(a)) | uvec4(isnan(b)));
  return mix(result, vec4(NOT_A_NUMBER), none);
}

// With the sign of b, as Python has it.
vec4 remainder_of(vec4 a, vec4 b) {
  vec4 r = fmod_of(a, b);
  bvec4 turn = bvec4(uvec4(notEqual(r, vec4(0.0))) & uvec4(notEqual(lessThan(r, vec4(0.0)), lessThan(b, vec4(0.0)))));
  return mix(r, r + b, turn);
}

vec4 floor_divide_of(vec4 a, vec4 b) {
  vec4 r = fmod_of(a, b);
  vec4 quotient = (a - r) / b;  // a whole number, nearly
  bvec4 turn = bvec4(uvec4(notEqual(r, vec4(0.0))) & uvec4(notEqual(lessThan(r, vec4(0.0)), lessThan(b, vec4(0.0)))));
  quotient = mix(quotient, quotient - 1.0, turn);
  return mix(floor(quotient + 0.5), a / b, equal(b, vec4(0.0)));
}

vec4 pow_of(vec4 x, vec4 y) {
  vec4 magnitude = abs(x);
  vec4 power = exp2(clamp(y * log2(magnitude), vec4(-149.0), vec4(127.999)));
  vec4 wanted = y * log_of(magnitude);
  power = mix(power, vec4(INFINITE), greaterThan(wanted, vec4(88.72284)));
  power = mix(power, vec4(0.0), lessThan(wanted, vec4(-103.9)));
  bvec4 whole = equal(y, floor(y));
  vec4 half_y = y * 0.5;
  bvec4 odd = bvec4(uvec4(whole) & uvec4(notEqual(half_y, floor(half_y))));
  bvec4 negative = notEqual(floatBitsToUint(x) & 0x80000000u, uvec4(0u));
  power = mix(power, -power, bvec4(uvec4(negative) & uvec4(odd)));
  bvec4 unreal = bvec4(uvec4(lessThan(x, vec4(0.0))) & uvec4(not(whole)) & uvec4(not(isinf(x))));
  power = mix(power, vec4(NOT_A_NUMBER), bvec4(uvec4(unreal) | uvec4(isnan(x)) | uvec4(isnan(y))));
  bvec4 one = bvec4(uvec4(equal(x, vec4(1.0))) | (uvec4(equal(magnitude, vec4(1.0))) & uvec4(isinf(y))));
  return mix(power, vec4(1.0), bvec4(uvec4(equal(y, vec4(0.0))) | uvec4(one)));
}

vec4 atan2_of(vec4 y, vec4 x) {
  bvec4 none = bvec4(uvec4(equal(x, vec4(0.0))) & uvec4(equal(y, vec4(0.0))));
  bvec4 both = bvec4(uvec4(isinf(x)) & uvec4(isinf(y)));
  vec4 left = vec4(floatBitsToUint(x) >> 31);  // 1 for negative x, minus zero too
  vec4 positive = mix(mix(atan(abs(y), x), 3.14159265359 * left, none), 0.78539816340 + 1.57079632679 * left, both);
  vec4 result = uintBitsToFloat(floatBitsToUint(positive) | (floatBitsToUint(y) & 0x80000000u));
  return keep_nan(x, keep_nan(y, result));
}

int pow_of(int x, int y) {
  int power = 1;
  for (uint rest = uint(max(y, 0)); rest != 0u; rest >>= 1) {
    if ((rest & 1u) != 0u) power *= x;
    x *= x;
  }
  if (y >= 0) return power;
  return x == 1 ? 1 : x == -1 ? ((y & 1) == 0 ? 1 : -1) : 0;
}

// Rounded towards negative infinity; any number for b = 0.
int floor_divide_of(int a, int b) {
  int divisor = b == 0 ? 1 : b;
  int quotient = a / divisor;
  return quotient * divisor != a && (a < 0) != (divisor < 0) ? quotient - 1 : quotient;
}
