// A function of each element.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "mathematics.glsl"

layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = F32;
layout(push_constant) uniform Parameters {
  uint count;  // elements
  uint p;      // numbers of the kind
  uint q;
  uint r;
};
READER(x, 0, T_IN)
WRITER(y, 1, T_OUT)

// In the order of UNARY in operators/unary.py.
const int COPY = 0, ABS = 1, NEG = 2, EXP = 3, LOG = 4, SQRT = 5, RSQRT = 6, RECIPROCAL = 7, SIN = 8, COS = 9, TANH = 10,
          SIGMOID = 11, RELU = 12, CLAMP = 13, GELU = 14, GELU_TANH = 15, SILU = 16, HARDSWISH = 17, HARDSIGMOID = 18,
          LEAKY_RELU = 19, ELU = 20, FLOOR = 21, CEIL = 22, ROUND = 23, TRUNC = 24, ERF = 25, SQUARE = 26, SOFTPLUS = 27,
          MISH = 28, SIGN = 29, LOG2 = 30, LOG10 = 31, LOG1P = 32, EXPM1 = 33, EXP2 = 34, TAN = 35, ATAN = 36, CUBE = 37,
          SCALE = 38, BITWISE_NOT = 39, SINH = 40, COSH = 41, ASIN = 42, ACOS = 43, LOGICAL_NOT = 44, ISNAN = 45,
          ISINF = 46;

vec4 of_floats(vec4 x) {
  float a = uintBitsToFloat(p), b = uintBitsToFloat(q), c = uintBitsToFloat(r);
  switch (OP) {
    case COPY: return x;
    case ABS: return abs(x);
    case NEG: return -x;
    case EXP: return exp_of(x);
    case LOG: return log_of(x);
    case SQRT: return keep_nan(x, mix(sqrt(x), vec4(NOT_A_NUMBER), lessThan(x, vec4(0.0))));
    case RSQRT: return keep_nan(x, mix(1.0 / sqrt(x), vec4(NOT_A_NUMBER), lessThan(x, vec4(0.0))));
    case RECIPROCAL: return 1.0 / x;
    case SIN: return mix(sin(x), vec4(NOT_A_NUMBER), isinf(x));
    case COS: return mix(cos(x), vec4(NOT_A_NUMBER), isinf(x));
    case TAN: return tan(x);
    case ATAN: return keep_nan(x, atan(x));
    case ASIN: {
      // Near +-1 through the half angle, where the tangent would lose digits.
      vec4 m = abs(x);
      vec4 far = 1.57079632679 - 2.0 * atan(sqrt(0.5 * (1.0 - m)), sqrt(0.5 * (1.0 + m)));
      vec4 near = atan(m / sqrt(1.0 - m * m));
      return mix(sign(x) * mix(near, far, greaterThan(m, vec4(0.5))), vec4(NOT_A_NUMBER), not(lessThanEqual(m, vec4(1.0))));
    }
    case ACOS:
      return mix(2.0 * atan(sqrt(1.0 - x), sqrt(1.0 + x)), vec4(NOT_A_NUMBER), not(lessThanEqual(abs(x), vec4(1.0))));
    case SINH: return 0.5 * (expm1_of(x) - expm1_of(-x));
    case COSH: return 0.5 * (exp_of(x) + exp_of(-x));
    case TANH: return tanh_of(x);
    case SIGMOID: return sigmoid_of(x);
    case RELU: return mix(x, vec4(0.0), lessThan(x, vec4(0.0)));
    case CLAMP: {
      vec4 above = mix(x, vec4(a), lessThan(x, vec4(a)));
      return mix(above, vec4(b), greaterThan(above, vec4(b)));
    }
    case GELU: return gelu_of(x);
    case GELU_TANH: return gelu_tanh_of(x);
    case SILU: return x / (1.0 + exp_of(-x));
    case HARDSWISH: return keep_nan(x, x * clamp(x + 3.0, vec4(0.0), vec4(6.0)) / 6.0);
    case HARDSIGMOID: return keep_nan(x, clamp(x + 3.0, vec4(0.0), vec4(6.0)) / 6.0);
    case LEAKY_RELU: return mix(x, x * a, lessThan(x, vec4(0.0)));
    case ELU: return mix(x * b, a * b * expm1_of(x * c), lessThan(x, vec4(0.0)));
    case FLOOR: return floor(x);
    case CEIL: return ceil(x);
    case ROUND: return roundEven(x);
    case TRUNC: return trunc(x);
    case ERF: return erf_of(x);
    case SQUARE: return x * x;
    case CUBE: return x * x * x;
    case SOFTPLUS: return softplus_of(x, a, b);
    case MISH: return x * tanh_of(softplus_of(x, 1.0, 20.0));
    case SIGN: return mix(sign(x), vec4(0.0), isnan(x));
    case LOG2: return log_of(x) * 1.44269504089;
    case LOG10: return log_of(x) * 0.4342944819;
    case LOG1P: return log1p_of(x);
    case EXPM1: return expm1_of(x);
    case EXP2: return exp_of(x * 0.69314718056);
    case SCALE: return x * a + b;
  }
  return x;
}

ivec4 of_ints(ivec4 x) {
  switch (OP) {
    case ABS: return abs(x);
    case NEG: return -x;
    case RELU: return max(x, ivec4(0));
    case CLAMP: return min(max(x, ivec4(int(p))), ivec4(int(q)));
    case SQUARE: return x * x;
    case CUBE: return x * x * x;
    case SIGN: return sign(x);
    case BITWISE_NOT: return T_OUT == B8 ? 1 - x : ~x;
  }
  return x;
}

ivec4 holds(uvec4 x) {
  vec4 v = uintBitsToFloat(x);
  switch (OP) {
    case LOGICAL_NOT: return KIND == FLOAT ? ivec4(equal(v, vec4(0.0))) : ivec4(equal(x, uvec4(0u)));
    case ISNAN: return KIND == FLOAT ? ivec4(isnan(v)) : ivec4(0);
    case ISINF: return KIND == FLOAT ? ivec4(isinf(v)) : ivec4(0);
  }
  return ivec4(0);
}

void main() {
  uint u = invocation();
  if (4 * u >= count) return;
  uvec4 v = as_kind(x_four(u, count), kind_of(T_IN), KIND);
  if (OP >= LOGICAL_NOT) {
    y_put(u, count, as_type(uvec4(holds(v)), INT, T_OUT));
  } else if (KIND == FLOAT) {
    y_put(u, count, as_type(floatBitsToUint(of_floats(uintBitsToFloat(v))), FLOAT, T_OUT));
  } else {
    y_put(u, count, as_type(uvec4(of_ints(ivec4(v))), INT, T_OUT));
  }
}
