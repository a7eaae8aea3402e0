/* What buffers are aligned to. */
#pragma once

#include <stdint.h>

/* Bytes of all buffers and their alignments together, so that no sum of some of them overflows. */
#define ETARENA_LARGEST_TOTAL ((int64_t)1 << 61)

/* Small buffers are aligned to their size rounded up to a power of two from 16 on, so that they do not cost a whole
 * line. */
static inline int64_t step_for(int64_t size, int64_t alignment) {
  int64_t step = 16;
  while (step < size && step < alignment) step *= 2;
  return step < alignment ? step : alignment;
}
