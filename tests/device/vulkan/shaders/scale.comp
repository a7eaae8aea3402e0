// out = in * FACTOR + offset, negated on request, for every number of a vector.
#version 450

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const float FACTOR = 1.0;
layout(constant_id = 1) const bool NEGATE = false;
layout(constant_id = 2) const int EXTRA = 0;
layout(push_constant) uniform Parameters {
  uint count;
  float offset;
};
layout(set = 0, binding = 0) readonly buffer In { float x[]; };
layout(set = 0, binding = 1) buffer Out { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  float value = x[i] * FACTOR + offset + float(EXTRA);
  y[i] = NEGATE ? -value : value;
}
