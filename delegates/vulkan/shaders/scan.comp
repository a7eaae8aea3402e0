// Running sums along the middle dimension of (outer, size, inner), in chunks of `step_`; each invocation goes down a column
// of one, from the sum of those before.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = F32;
layout(constant_id = 4) const bool CHUNKED = false;
layout(push_constant) uniform Parameters {
  uint outer;
  uint size;
  uint inner;
  uint chunks;
  uint step_;
};
READER(x, 0, T_IN)
layout(set = 0, binding = 1) readonly buffer Sums { uint sums[]; };  // (outer, chunks, inner), running
WRITER(y, 2, T_OUT)

void main() {
  uint i = invocation();
  if (i >= outer * chunks * inner) return;
  uint block = i / inner, column = i - block * inner;
  uint row = block / chunks, chunk = block - row * chunks;
  uint at = (row * size + chunk * step_) * inner + column, end = min((chunk + 1) * step_, size);
  uint before = CHUNKED && chunk > 0 ? sums[i - inner] : 0u;
  float sum = uintBitsToFloat(before), lost = 0.0;  // Kahan's summation: running sums may cancel
  for (uint r = chunk * step_; r < end; r++, at += inner) {
    uint v = as_kind(uvec4(x_at(at)), kind_of(T_IN), KIND).x;
    if (KIND == FLOAT) {
      precise float next = uintBitsToFloat(v) - lost;
      precise float total = sum + next;
      precise float error = (total - sum) - next;
      lost = isinf(total) || isnan(total) ? 0.0 : error;
      sum = total;
      y_set(at, floatBitsToUint(sum));
    } else {
      before += v;
      y_set(at, before);
    }
  }
}
