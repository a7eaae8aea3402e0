// What pipelines refuse, one thing for each macro.
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

#ifdef FIXED
layout(local_size_x = 2, local_size_y = 3, local_size_z = 4) in;
#else
layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
#endif
struct Pair {
  vec2 first;
  float second;
};
layout(push_constant) uniform Parameters {
  uint count;
  mat3 turn;         // 16 to 64
  Pair pairs[2];     // 64 to 96
  layout(offset = 100) float last;
};
#if defined(UNIFORM)
layout(set = 0, binding = 0) uniform In { vec4 x[4]; };
#elif defined(OTHER_SET)
layout(set = 1, binding = 0) buffer In { vec4 x[4]; };
#else
layout(set = 0, binding = 0) buffer In { vec4 x[4]; };
#endif
#ifdef WIDE
layout(constant_id = 7) const uint64_t WIDE_ONE = 1;
#else
const uint64_t WIDE_ONE = 1;
#endif
layout(set = 0, binding = 1) buffer Out { vec4 y[]; };

void main() {
  y[gl_LocalInvocationIndex] = x[0] + vec4(turn * pairs[1].first.xyx, last) + float(WIDE_ONE + uint64_t(count));
}
