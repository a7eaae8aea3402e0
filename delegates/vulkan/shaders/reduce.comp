// Reduces the middle dimension of (outer, size, inner) to (outer, chunks, inner), where a chunk is `step_` long. Without
// inner dimension a workgroup reduces a chunk of a row; else each invocation goes down four columns, or one.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = F32;
layout(constant_id = 4) const bool NONZERO = false;  // reduces whether elements are not zero, as ints
layout(constant_id = 5) const int COLUMNS = 0;       // 0: rows; else how many at a time, 1 or 4
layout(push_constant) uniform Parameters {
  uint count;  // elements of x
  uint outer;
  uint size;
  uint inner;
  uint chunks;
  uint step_;
  float scale;  // of a sum of floats
};
READER(x, 0, T_IN)
WRITER(y, 1, T_OUT)

// In the order of REDUCTIONS in operators/reductions.py.
const int SUM = 0, PROD = 1, MAX = 2, MIN = 3;
const int RESULT = NONZERO ? INT : KIND;

shared uint partial[gl_WorkGroupSize.x];

uint identity() {
  bool floats = RESULT == FLOAT;
  switch (OP) {
    case SUM: return 0u;
    case PROD: return floats ? floatBitsToUint(1.0) : 1u;
    case MAX: return floats ? 0xff800000u : 0x80000000u;
  }
  return floats ? 0x7f800000u : 0x7fffffffu;
}

uvec4 combine(uvec4 p, uvec4 q) {
  if (RESULT == FLOAT) {
    vec4 a = uintBitsToFloat(p), b = uintBitsToFloat(q);
    switch (OP) {
      case SUM: return floatBitsToUint(a + b);
      case PROD: return floatBitsToUint(a * b);
      case MAX: return mix(q, p, bvec4(uvec4(greaterThan(a, b)) | uvec4(isnan(a))));
    }
    return mix(q, p, bvec4(uvec4(lessThan(a, b)) | uvec4(isnan(a))));
  }
  ivec4 a = ivec4(p), b = ivec4(q);
  switch (OP) {
    case SUM: return uvec4(a + b);
    case PROD: return uvec4(a * b);
    case MAX: return uvec4(max(a, b));
  }
  return uvec4(min(a, b));
}

uvec4 prepared(uvec4 bits) {
  uvec4 v = as_kind(bits, kind_of(T_IN), KIND);
  if (!NONZERO) return v;
  return KIND == FLOAT ? uvec4(notEqual(uintBitsToFloat(v), vec4(0.0))) : uvec4(notEqual(v, uvec4(0u)));
}

uvec4 finished(uvec4 v) {
  if (OP == SUM && RESULT == FLOAT) v = floatBitsToUint(uintBitsToFloat(v) * scale);
  return as_type(v, RESULT, T_OUT);
}

void reduce_row() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  if (group >= outer * chunks) return;
  uint row = group / chunks, chunk = group - row * chunks;
  uint begin = row * size + chunk * step_, end = row * size + min((chunk + 1) * step_, size);
  uvec4 found = uvec4(identity());
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    uvec4 v = prepared(x_four(u, count));
    if (4 * u < begin || 4 * u + 4 > end) {
      uvec4 i = uvec4(4 * u) + uvec4(0, 1, 2, 3);
      bvec4 inside = bvec4(uvec4(greaterThanEqual(i, uvec4(begin))) & uvec4(lessThan(i, uvec4(end))));
      v = mix(uvec4(identity()), v, inside);
    }
    found = combine(found, v);
  }
  partial[lane] = combine(combine(found.xxxx, found.yyyy), combine(found.zzzz, found.wwww)).x;
  barrier();
  for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
    if (lane < half_) partial[lane] = combine(uvec4(partial[lane]), uvec4(partial[lane + half_])).x;
    barrier();
  }
  if (lane == 0) y_set(group, finished(uvec4(partial[0])).x);
}

void reduce_columns() {
  uint i = invocation(), across = inner / COLUMNS;
  if (i >= outer * chunks * across) return;
  uint block = i / across, column = (i - block * across) * COLUMNS;
  uint row = block / chunks, chunk = block - row * chunks;
  uvec4 found = uvec4(identity());
  for (uint r = chunk * step_; r < min((chunk + 1) * step_, size); r++) {
    uint at = (row * size + r) * inner + column;
    found = combine(found, prepared(COLUMNS == 4 ? x_four(at / 4, count) : uvec4(x_at(at))));
  }
  uint at = block * inner + column;
  if (COLUMNS == 4) y_put(at / 4, outer * chunks * inner, finished(found));
  else y_set(at, finished(found).x);
}

void main() {
  if (COLUMNS == 0) reduce_row();
  else reduce_columns();
}
