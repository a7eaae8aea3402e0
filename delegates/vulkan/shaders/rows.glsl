// What the invocations of a workgroup know together. The including shader has defined the number of invocations, a power
// of two, by its local size.

shared float partial[gl_WorkGroupSize.x];

uint workgroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// Sum of a number of each invocation, for all of them.
float sum_of_all(float mine) {
  uint lane = gl_LocalInvocationID.x;
  partial[lane] = mine;
  barrier();
  for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
    if (lane < half_) partial[lane] += partial[lane + half_];
    barrier();
  }
  float sum = partial[0];
  barrier();
  return sum;
}

// The largest of a number of each invocation; NaN if one is.
float largest_of_all(float mine) {
  uint lane = gl_LocalInvocationID.x;
  partial[lane] = mine;
  barrier();
  for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
    if (lane < half_) {
      float a = partial[lane], b = partial[lane + half_];
      partial[lane] = a > b || isnan(a) ? a : b;
    }
    barrier();
  }
  float largest = partial[0];
  barrier();
  return largest;
}

// Which of elements 4u to 4u+3 are in the row that begins at an element.
bvec4 in_row(uint u, uint begin, uint size) {
  uvec4 i = uvec4(4 * u) + uvec4(0, 1, 2, 3);
  return bvec4(uvec4(greaterThanEqual(i, uvec4(begin))) & uvec4(lessThan(i, uvec4(begin + size))));
}
