// A function of the elements of three tensors that are broadcast to one another.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "mathematics.glsl"

layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_A = F32;
layout(constant_id = 3) const int T_B = F32;
layout(constant_id = 4) const int T_C = F32;
layout(constant_id = 5) const int T_OUT = F32;
layout(push_constant) uniform Parameters {
  uint count;
  uint number_a;  // operands that are numbers, of the kind
  uint number_b;
  uint number_c;
  uint p;  // a number of the kind
  uint sizes[6];
  uint strides_a[6];
  uint strides_b[6];
  uint strides_c[6];
};
#include "broadcast.glsl"

// In the order of TERNARY in operators/ternary.py.
const int WHERE = 0, CLAMP = 1, MULTIPLY_ADD = 2, ADD_PRODUCT = 3, ADD_QUOTIENT = 4;
const int KIND_A = OP == WHERE ? INT : KIND;

READER(a, 0, T_A)
READER(b, 1, T_B)
READER(c, 2, T_C)
WRITER(y, 3, T_OUT)
OPERAND(a, T_A, MODE_A, strides_a, number_a, KIND_A)
OPERAND(b, T_B, MODE_B, strides_b, number_b, KIND)
OPERAND(c, T_C, MODE_C, strides_c, number_c, KIND)

vec4 of_floats(vec4 a, vec4 b, vec4 c) {
  float alpha = uintBitsToFloat(p);
  switch (OP) {
    case CLAMP: {
      vec4 above = mix(a, b, lessThan(a, b));
      above = mix(above, c, greaterThan(above, c));
      return keep_nan(a, keep_nan(b, keep_nan(c, above)));
    }
    case MULTIPLY_ADD: return a * b + c;
    case ADD_PRODUCT: return a + alpha * b * c;
    case ADD_QUOTIENT: return a + alpha * b / c;
  }
  return a;
}

ivec4 of_ints(ivec4 a, ivec4 b, ivec4 c) {
  switch (OP) {
    case CLAMP: return min(max(a, b), c);
    case MULTIPLY_ADD: return a * b + c;
    case ADD_PRODUCT: return a + int(p) * b * c;
  }
  return a;
}

void main() {
  uint u = invocation();
  if (4 * u >= count) return;
  uvec4 v = a_operand(u), w = b_operand(u), z = c_operand(u), result;
  if (OP == WHERE) result = mix(z, w, notEqual(v, uvec4(0u)));
  else if (KIND == FLOAT)
    result = floatBitsToUint(of_floats(uintBitsToFloat(v), uintBitsToFloat(w), uintBitsToFloat(z)));
  else result = uvec4(of_ints(ivec4(v), ivec4(w), ivec4(z)));
  y_put(u, count, as_type(result, KIND, T_OUT));
}
