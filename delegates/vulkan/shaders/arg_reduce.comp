// Where the largest or the smallest element of the middle dimension of (outer, size, inner) is, the first of equal ones.
// A workgroup searches a row, or a long column; else each invocation goes down a column.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(constant_id = 0) const bool LARGEST = true;
layout(constant_id = 1) const int KIND = FLOAT;
layout(constant_id = 2) const int T_IN = F32;
layout(constant_id = 3) const int T_OUT = I64;
layout(constant_id = 4) const int COLUMNS = 0;  // 0: rows; 1: columns; 2: long columns
layout(push_constant) uniform Parameters {
  uint count;  // elements of x
  uint outer;
  uint size;
  uint inner;
};
READER(x, 0, T_IN)
WRITER(y, 1, T_OUT)

shared uint values[gl_WorkGroupSize.x];
shared uint places[gl_WorkGroupSize.x];

// Whether v at i comes before w at j. NaN comes before all numbers.
bool before(uint v, uint i, uint w, uint j) {
  if (KIND == FLOAT) {
    float a = uintBitsToFloat(v), b = uintBitsToFloat(w);
    if (isnan(a) || isnan(b)) return isnan(a) && (!isnan(b) || i < j);
    return (LARGEST ? a > b : a < b) || (a == b && i < j);
  }
  int a = int(v), b = int(w);
  return (LARGEST ? a > b : a < b) || (a == b && i < j);
}

uint number_at(uint i) { return as_kind(uvec4(x_at(i)), kind_of(T_IN), KIND).x; }

// The best of an invocation's share of a row that lies in one piece and of a first one: its value, and its place in the row.
uvec2 search_fours(uint begin, uint lane, uint value, uint place) {
  uint end = begin + size;
  for (uint u = begin / 4 + lane; 4 * u < end; u += gl_WorkGroupSize.x) {
    uvec4 v = as_kind(x_four(u, count), kind_of(T_IN), KIND);
    for (uint k = 0; k < 4; k++) {
      uint i = 4 * u + k;
      if (i >= begin && i < end && before(v[k], i - begin, value, place)) value = v[k], place = i - begin;
    }
  }
  return uvec2(value, place);
}

void search_together() {
  uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  if (i >= outer * inner) return;
  uint row = i / inner, begin = row * size * inner + (i - row * inner);
  uint place = min(lane, size - 1), value = number_at(begin + place * inner);
  if (COLUMNS == 0) {
    uvec2 best = search_fours(begin, lane, value, place);
    value = best.x;
    place = best.y;
  } else {
    for (uint r = lane; r < size; r += gl_WorkGroupSize.x) {
      uint v = number_at(begin + r * inner);
      if (before(v, r, value, place)) value = v, place = r;
    }
  }
  values[lane] = value;
  places[lane] = place;
  barrier();
  for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
    if (lane < half_) {
      uint other = lane + half_;
      if (before(values[other], places[other], values[lane], places[lane])) {
        values[lane] = values[other];
        places[lane] = places[other];
      }
    }
    barrier();
  }
  if (lane == 0) y_set(i, places[0]);
}

void search_column() {
  uint i = invocation();
  if (i >= outer * inner) return;
  uint row = i / inner, begin = row * size * inner + (i - row * inner);
  uint place = 0, value = number_at(begin);
  for (uint r = 1; r < size; r++) {
    uint v = number_at(begin + r * inner);
    if (before(v, r, value, place)) value = v, place = r;
  }
  y_set(i, place);
}

void main() {
  if (COLUMNS == 1) search_column();
  else search_together();
}
