// Running sums along the middle dimension of (outer, size, inner); each invocation goes down a column.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = F32;
layout(push_constant) uniform Parameters {
  uint outer;
  uint size;
  uint inner;
};
READER(x, 0, T_IN)
WRITER(y, 1, T_OUT)

void main() {
  uint i = invocation();
  if (i >= outer * inner) return;
  uint row = i / inner, at = row * size * inner + (i - row * inner);
  float sum = 0.0, lost = 0.0;  // Kahan's summation
  uint whole = 0;
  for (uint r = 0; r < size; r++, at += inner) {
    uint v = as_kind(uvec4(x_at(at)), kind_of(T_IN), KIND).x;
    if (KIND == FLOAT) {
      precise float next = uintBitsToFloat(v) - lost;
      precise float total = sum + next;
      precise float error = (total - sum) - next;
      lost = isinf(total) || isnan(total) ? 0.0 : error;
      sum = total;
      y_set(at, floatBitsToUint(sum));
    } else {
      whole += v;
      y_set(at, whole);
    }
  }
}
