// Numbers that go up by a step; all the same with a step of zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_OUT = F32;
layout(push_constant) uniform Parameters {
  uint count;
  uint start;  // numbers of the kind
  uint step_;
};
WRITER(y, 0, T_OUT)

void main() {
  uint u = invocation();
  if (4 * u >= count) return;
  uvec4 i = uvec4(4 * u) + uvec4(0, 1, 2, 3), result;
  if (KIND == INT) result = uvec4(ivec4(int(start)) + ivec4(i) * int(step_));
  else {
    float a = uintBitsToFloat(start), b = uintBitsToFloat(step_);
    result = floatBitsToUint(b == 0.0 ? vec4(a) : a + vec4(i) * b);
  }
  y_put(u, count, as_type(result, KIND, T_OUT));
}
