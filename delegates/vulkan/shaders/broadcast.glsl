// Where an operand's elements are for four consecutive elements of a result that it is broadcast to. The including
// shader has defined `sizes` (six of the result, outermost first) and `count`, its elements.

layout(constant_id = 80) const int RANK = 1;
layout(constant_id = 81) const int MODE_A = 0;
layout(constant_id = 82) const int MODE_B = 0;
layout(constant_id = 83) const int MODE_C = 0;

// Laid out as the result is; a number in the push constants; the only element; rows of the result in which the operand is
// laid out as they are and which begin at multiples of four; rows in which it has one element; anything.
const int WHOLE = 0, NUMBER = 1, ONE = 2, ROWS = 3, SPLAT = 4, STRIDED = 5;

uint[6] coordinates(uint i) {
  uint place[6] = uint[6](0u, 0u, 0u, 0u, 0u, 0u);
  for (int d = RANK - 1; d > 0; d--) {
    uint rest = i / sizes[d];
    place[d] = i - rest * sizes[d];
    i = rest;
  }
  place[0] = i;
  return place;
}

// NAME_operand(u): the elements for elements 4u to 4u+3 of the result.
#define OPERAND(NAME, TYPE, MODE, STRIDES, VALUE, KIND)                                         \
  uint NAME##_start(uint place[6]) {                                                            \
    uint start = 0;                                                                             \
    for (int d = 0; d < RANK; d++) start += place[d] * STRIDES[d];                              \
    return start;                                                                               \
  }                                                                                             \
  uvec4 NAME##_gather(uint place[6]) {                                                          \
    uint at = NAME##_start(place);                                                              \
    uvec4 found;                                                                                \
    for (int k = 0; k < 4; k++) {                                                               \
      found[k] = NAME##_at(at);                                                                 \
      bool next = true;                                                                         \
      for (int d = RANK - 1; d >= 0; d--) {                                                     \
        if (next) {                                                                             \
          place[d]++;                                                                           \
          at += STRIDES[d];                                                                     \
          next = place[d] == sizes[d];                                                          \
          if (next) {                                                                           \
            place[d] = 0;                                                                       \
            at -= sizes[d] * STRIDES[d];                                                        \
          }                                                                                     \
        }                                                                                       \
      }                                                                                         \
    }                                                                                           \
    return found;                                                                               \
  }                                                                                             \
  uvec4 NAME##_operand(uint u) {                                                                \
    if (MODE == NUMBER) return uvec4(VALUE);                                                    \
    uvec4 found;                                                                                \
    if (MODE == ONE) found = uvec4(NAME##_at(0u));                                              \
    else if (MODE == WHOLE) found = NAME##_four(u, count);                                      \
    else if (MODE == ROWS) found = NAME##_four(NAME##_start(coordinates(4 * u)) >> 2, count);   \
    else if (MODE == SPLAT) found = uvec4(NAME##_at(NAME##_start(coordinates(4 * u))));         \
    else found = NAME##_gather(coordinates(4 * u));                                             \
    return as_kind(found, kind_of(TYPE), KIND);                                                 \
  }
