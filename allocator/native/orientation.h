/* A plan as who lies below whom, which is replayed for other sizes.
 *
 * Which buffers live at the same time does not depend on their sizes. A plan orders any two of them; for all other
 * sizes, putting every buffer on top of those that are below it gives a plan again: two buffers that meet are ordered,
 * so the upper one begins where the lower one ends, or above. It is enough to look at what a buffer lies on directly:
 * at every position of its life that is the topmost of the buffers placed before, and all others there are below that
 * one. So the lists are read off a skyline, and hold at most four entries a buffer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alignment.h"

typedef struct {
  int32_t n;
  int32_t* order;  /* buffers from the bottom up; owns the memory of all four */
  int32_t* events; /* 2 n: i where buffer i begins to live, ~i where it ends; ends come first where both happen */
  int32_t* start;  /* of each position in the order: where its list begins; one more at the end */
  int32_t* below;  /* positions in the order of what lies directly below */
} Orientation;

typedef struct {
  int64_t offset;
  int32_t buffer;
} OrientedOffset;

static inline int compare_oriented(const void* a, const void* b) {
  const OrientedOffset* const x = (const OrientedOffset*)a;
  const OrientedOffset* const y = (const OrientedOffset*)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static inline void forget_orientation(Orientation* orientation) {
  free(orientation->order);
  memset(orientation, 0, sizeof(*orientation));
}

static inline void read_skyline(Orientation* orientation, const int32_t* first, const int32_t* last, int32_t positions,
                                int32_t* skyline, int32_t* seen) {
  int32_t count = 0;
  for (int32_t p = 0; p < positions; ++p) skyline[p] = -1;
  for (int32_t k = 0; k < orientation->n; ++k) seen[k] = -1;
  for (int32_t k = 0; k < orientation->n; ++k) {
    const int32_t buffer = orientation->order[k];
    orientation->start[k] = count;
    for (int32_t p = first[buffer]; p < last[buffer]; ++p) {
      const int32_t under = skyline[p];
      if (under >= 0 && seen[under] != k) {
        seen[under] = k;
        orientation->below[count++] = under;
      }
      skyline[p] = k;
    }
  }
  orientation->start[orientation->n] = count;
}

/* Sorts the beginnings and ends of the lives by counting; `next` has room for positions + 1 numbers. */
static inline void list_events(Orientation* orientation, const int32_t* first, const int32_t* last, int32_t positions,
                               int32_t* next) {
  const int32_t n = orientation->n;
  int32_t total = 0;
  memset(next, 0, ((size_t)positions + 1) * sizeof(int32_t));
  for (int32_t i = 0; i < n; ++i) {
    ++next[first[i]];
    ++next[last[i]];
  }
  for (int32_t p = 0; p <= positions; ++p) {
    const int32_t here = next[p];
    next[p] = total;
    total += here;
  }
  for (int32_t i = 0; i < n; ++i) orientation->events[next[last[i]]++] = ~i;
  for (int32_t i = 0; i < n; ++i) orientation->events[next[first[i]]++] = i;
}

/* The alignment of a buffer: its own if there are such, else by its size. */
static inline int64_t step_of(const int64_t* steps, int64_t alignment, int32_t buffer, int64_t size) {
  return steps != NULL ? steps[buffer] : step_for(size, alignment);
}

/* The largest sum of what lives at once, and that with each size rounded up to its alignment. False if a size is
 * negative or all are too large together. */
static inline bool measure_live(const Orientation* orientation, const int64_t* sizes, const int64_t* steps,
                                int64_t alignment, int64_t* most, int64_t* most_rounded) {
  int64_t live = 0, rounded = 0, room = ETARENA_LARGEST_TOTAL;
  *most = *most_rounded = 0;
  for (int32_t e = 0; e < 2 * orientation->n; ++e) {
    const int32_t event = orientation->events[e];
    const int32_t buffer = event < 0 ? ~event : event;
    const int64_t step = step_of(steps, alignment, buffer, sizes[buffer]);
    const int64_t whole = (int64_t)(((uint64_t)sizes[buffer] + (uint64_t)step - 1) & -(uint64_t)step);
    if (event < 0) {
      live -= sizes[buffer];
      rounded -= whole;
      continue;
    }
    if (sizes[buffer] < 0 || sizes[buffer] > room - step) return false;
    room -= sizes[buffer] + step;
    live += sizes[buffer];
    rounded += whole;
    if (live > *most) *most = live;
    if (rounded > *most_rounded) *most_rounded = rounded;
  }
  return true;
}

/* Reads the orientation of a plan, in which empty buffers have no place: they go to the top, where they are in nobody's
 * way. Buffer i lives at positions 0 <= first[i] <= p < last[i] <= positions. False if there is no memory; the
 * orientation is empty then. */
static inline bool orient(Orientation* orientation, int32_t n, const int32_t* first, const int32_t* last,
                          int32_t positions, const int64_t* sizes, const int64_t* offsets) {
  const size_t count = (size_t)n;
  int32_t* const memory = (int32_t*)malloc((8 * count + 1) * sizeof(int32_t));
  int32_t* const scratch = (int32_t*)malloc((count + (size_t)positions + 1) * sizeof(int32_t));
  OrientedOffset* const sorted = (OrientedOffset*)malloc((count + 1) * sizeof(OrientedOffset));
  const bool done = memory != NULL && scratch != NULL && sorted != NULL;
  memset(orientation, 0, sizeof(*orientation));
  if (done) {
    orientation->n = n;
    orientation->order = memory;
    orientation->events = memory + count;
    orientation->start = memory + 3 * count;
    orientation->below = memory + 4 * count + 1;
    for (int32_t i = 0; i < n; ++i) {
      sorted[i].offset = sizes[i] == 0 ? INT64_MAX : offsets[i];
      sorted[i].buffer = i;
    }
    qsort(sorted, count, sizeof(OrientedOffset), compare_oriented);
    for (int32_t k = 0; k < n; ++k) orientation->order[k] = sorted[k].buffer;
    list_events(orientation, first, last, positions, scratch);
    read_skyline(orientation, first, last, positions, scratch, scratch + positions);
  } else {
    free(memory);
  }
  free(scratch);
  free(sorted);
  return done;
}

/* Offsets for these sizes, in bytes; 0 for empty buffers. The alignments are powers of two as for `step_of`, and `ends`
 * has room for n numbers. Gives the peak, or -1 as soon as a buffer ends beyond the limit. Sums of sizes and alignments
 * must not overflow. */
static inline int64_t replay_orientation(const Orientation* orientation, const int64_t* sizes, const int64_t* steps,
                                         int64_t alignment, int64_t limit, int64_t* ends, int64_t* offsets) {
  int64_t peak = 0;
  for (int32_t k = 0; k < orientation->n; ++k) {
    const int32_t buffer = orientation->order[k];
    int64_t offset = 0, step;
    for (int32_t e = orientation->start[k]; e < orientation->start[k + 1]; ++e) {
      if (ends[orientation->below[e]] > offset) offset = ends[orientation->below[e]];
    }
    ends[k] = offset;
    offsets[buffer] = 0;
    if (sizes[buffer] == 0) continue;
    step = step_of(steps, alignment, buffer, sizes[buffer]);
    offsets[buffer] = (offset + step - 1) & -step;
    ends[k] = offsets[buffer] + sizes[buffer];
    if (ends[k] > limit) return -1;
    if (ends[k] > peak) peak = ends[k];
  }
  return peak;
}
