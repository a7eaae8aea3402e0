// Fills a dense tensor from a dense one whose coordinates are shifted, and found by MODE where that leaves it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "items.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const uint RANK = 6;
layout(constant_id = 1) const int MODE = 0;  // 0 a value, 1 reflected, 2 the nearest, 3 from the other side

layout(push_constant) uniform Parameters {
  uint count;
  uint shifts;
  uint sizes[5];  // of the result, innermost first, as in copy_strided
  uint magics[5];
  int source_sizes[6];
  int before[6];  // how far the source is shifted
  uvec2 value;
};
layout(set = 0, binding = 0) readonly buffer Source { T source[]; };
layout(set = 0, binding = 1) writeonly buffer Target { T target[]; };

#include "division.glsl"

void main() {
  uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= count) return;
  uint rest = index;
  int from = 0, stride = 1;
  bool inside = true;
  for (uint i = 0; i < RANK; ++i) {
    uint outer = 0;
    int place = int(rest);
    if (i < RANK - 1) {
      outer = divide(rest, magics[i], shifts, i);
      place = int(rest - outer * sizes[i]);
    }
    rest = outer;
    int size = source_sizes[i];
    place -= before[i];
    if (MODE == 0) inside = inside && place >= 0 && place < size;
    if (MODE == 1) place = place < 0 ? -place : place >= size ? 2 * (size - 1) - place : place;
    if (MODE == 3) place = place < 0 ? place + size : place >= size ? place - size : place;
    from += clamp(place, 0, size - 1) * stride;
    stride *= size;
  }
#if ITEM == 8
  target[index] = inside ? source[from] : value;
#elif ITEM == 16
  target[index] = inside ? source[from] : value.xyxy;
#else
  if (inside) target[index] = source[from];
  else target[index] = T(value.x);
#endif
}
