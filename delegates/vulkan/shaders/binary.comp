// A function of the elements of two tensors that are broadcast to one another.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "mathematics.glsl"
#include "simple_activation.glsl"

layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_A = F32;
layout(constant_id = 3) const int T_B = F32;
layout(constant_id = 4) const int T_OUT = F32;
layout(push_constant) uniform Parameters {
  uint count;
  uint number_a;  // operands that are numbers, of the kind
  uint number_b;
  uint p;  // a number of the kind
  uint sizes[6];
  uint strides_a[6];
  uint strides_b[6];
};
#include "broadcast.glsl"
READER(a, 0, T_A)
READER(b, 1, T_B)
WRITER(y, 2, T_OUT)
OPERAND(a, T_A, MODE_A, strides_a, number_a, KIND)
OPERAND(b, T_B, MODE_B, strides_b, number_b, KIND)

// In the order of BINARY in operators/binary.py.
const int ADD = 0, SUB = 1, MUL = 2, DIV = 3, DIV_TRUNC = 4, DIV_FLOOR = 5, MAXIMUM = 6, MINIMUM = 7, POW = 8,
          REMAINDER = 9, FMOD = 10, SQUARED_DIFFERENCE = 11, EXP_DIFFERENCE = 12, PRELU = 13, ATAN2 = 14, BITWISE_AND = 15,
          BITWISE_OR = 16, BITWISE_XOR = 17, EQ = 18, NE = 19, LT = 20, LE = 21, GT = 22, GE = 23, LOGICAL_AND = 24,
          LOGICAL_OR = 25, LOGICAL_XOR = 26;

vec4 of_floats(vec4 a, vec4 b) {
  float alpha = uintBitsToFloat(p);
  switch (OP) {
    case ADD: return a + alpha * b;
    case SUB: return a - alpha * b;
    case MUL: return a * b;
    case DIV: return a / b;
    case DIV_TRUNC: return trunc(a / b);
    case DIV_FLOOR: return floor_divide_of(a, b);
    case MAXIMUM: return keep_nan(a, keep_nan(b, max(a, b)));
    case MINIMUM: return keep_nan(a, keep_nan(b, min(a, b)));
    case POW: return pow_of(a, b);
    case REMAINDER: return remainder_of(a, b);
    case FMOD: return fmod_of(a, b);
    case SQUARED_DIFFERENCE: return (a - b) * (a - b);
    case EXP_DIFFERENCE: return exp_of(a - b);
    case PRELU: return mix(b * a, a, greaterThan(a, vec4(0.0)));
    case ATAN2: return atan2_of(a, b);
  }
  return a;
}

int of_ints(int a, int b) {
  switch (OP) {
    case ADD: return a + int(p) * b;
    case SUB: return a - int(p) * b;
    case MUL: return a * b;
    case DIV_TRUNC: return a / (b == 0 ? 1 : b);
    case DIV_FLOOR: return floor_divide_of(a, b);
    case MAXIMUM: return max(a, b);
    case MINIMUM: return min(a, b);
    case POW: return pow_of(a, b);
    case REMAINDER: return a - floor_divide_of(a, b) * b;
    case FMOD: return a - a / (b == 0 ? 1 : b) * b;
    case BITWISE_AND: return a & b;
    case BITWISE_OR: return a | b;
    case BITWISE_XOR: return a ^ b;
  }
  return a;
}

bvec4 holds(vec4 a, vec4 b) {
  switch (OP) {
    case EQ: return equal(a, b);
    case NE: return notEqual(a, b);
    case LT: return lessThan(a, b);
    case LE: return lessThanEqual(a, b);
    case GT: return greaterThan(a, b);
    case GE: return greaterThanEqual(a, b);
  }
  uvec4 s = uvec4(notEqual(a, vec4(0.0))), t = uvec4(notEqual(b, vec4(0.0)));
  return bvec4(OP == LOGICAL_AND ? s & t : OP == LOGICAL_OR ? s | t : s ^ t);
}

bvec4 holds(ivec4 a, ivec4 b) {
  switch (OP) {
    case EQ: return equal(a, b);
    case NE: return notEqual(a, b);
    case LT: return lessThan(a, b);
    case LE: return lessThanEqual(a, b);
    case GT: return greaterThan(a, b);
    case GE: return greaterThanEqual(a, b);
  }
  uvec4 s = uvec4(notEqual(a, ivec4(0))), t = uvec4(notEqual(b, ivec4(0)));
  return bvec4(OP == LOGICAL_AND ? s & t : OP == LOGICAL_OR ? s | t : s ^ t);
}

void main() {
  uint u = invocation();
  if (4 * u >= count) return;
  uvec4 v = a_operand(u), w = b_operand(u);
  if (OP >= EQ) {
    bvec4 truth = KIND == FLOAT ? holds(uintBitsToFloat(v), uintBitsToFloat(w)) : holds(ivec4(v), ivec4(w));
    y_put(u, count, as_type(uvec4(truth), INT, T_OUT));
  } else if (KIND == FLOAT) {
    y_put(u, count, as_type(floatBitsToUint(activated(of_floats(uintBitsToFloat(v), uintBitsToFloat(w)))), FLOAT, T_OUT));
  } else {
    ivec4 i = ivec4(v), j = ivec4(w);
    ivec4 result = ivec4(of_ints(i.x, j.x), of_ints(i.y, j.y), of_ints(i.z, j.z), of_ints(i.w, j.w));
    y_put(u, count, as_type(uvec4(result), INT, T_OUT));
  }
}
