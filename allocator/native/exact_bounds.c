// Lower bounds of offsets and what follows from them.
//
// Buffers get their places from the bottom up: one is placed only when no neighbour (a buffer that lives at the same
// time) without a place could be below it, so everything that is placed later is above. Each section of time is a
// machine in the sense of scheduling: its buffers are jobs that take their turns, with their bounds as release dates.
#include <stdlib.h>

#include "exact_state.h"

static bool push(exact_search* search, trail_kind kind, int32_t i, int64_t old) {
  if (search->n_trail == search->trail_capacity) {
    int capacity = 2 * search->trail_capacity;
    trail_entry* grown = realloc(search->trail, capacity * sizeof(trail_entry));
    if (grown == NULL) {
      search->no_memory = true;
      return false;
    }
    search->trail = grown;
    search->trail_capacity = capacity;
  }
  search->trail[search->n_trail++] = (trail_entry){old, i, kind};
  return true;
}

static void mark_section(exact_search* search, int32_t s) {
  if (search->sections[s].dirty) return;
  search->sections[s].dirty = true;
  search->queue[search->n_queue++] = s;
}

static void mark(exact_search* search, const buffer* item) {
  for (int k = 0; k < item->sections.count; k++) mark_section(search, item->sections.items[k]);
}

void exact_mark_all(exact_search* search) {
  for (int32_t s = 0; s < search->n_sections; s++) mark_section(search, s);
}

// What is known of this section does not hold after the undo that follows, nor that of those still marked.
static bool fail(exact_search* search, int32_t s) {
  if (!search->lowest_first) search->sections[s].weight += 1;  // failures of the other kind of round only mislead
  mark_section(search, s);
  return false;
}

void exact_undo(exact_search* search, int n_trail) {
  while (search->n_trail > n_trail) {
    trail_entry entry = search->trail[--search->n_trail];
    buffer* item = &search->buffers[entry.buffer];
    if (entry.kind == TRAIL_BLOCK) {
      item->block = entry.old;
      continue;
    }
    if (entry.kind == TRAIL_PLACE) {
      for (int k = 0; k < item->sections.count; k++) search->sections[item->sections.items[k]].rest += item->size;
    }
    item->bound = entry.old;
    mark(search, item);
  }
}

int64_t exact_next_free(const exact_search* search, int32_t i, int64_t bound) {
  const buffer* item = &search->buffers[i];
  bound = exact_align(bound, item->step);
  for (int k = 0; search->has_pins && k < item->neighbours.count; k++) {
    const buffer* other = &search->buffers[item->neighbours.items[k]];
    if (other->pin >= 0 && bound < other->pin + other->size && bound + item->size > other->pin) {
      bound = exact_align(other->pin + other->size, item->step);
      k = -1;  // the new place may be taken by a pin that was passed before
    }
  }
  return bound;
}

bool exact_raise(exact_search* search, int32_t i, int64_t bound) {
  buffer* item = &search->buffers[i];
  if (item->pin >= 0) return bound <= item->pin ? true : fail(search, item->sections.items[0]);
  if (!push(search, TRAIL_BOUND, i, item->bound)) return false;
  item->bound = exact_next_free(search, i, bound);
  mark(search, item);
  return true;
}

static bool set_block(exact_search* search, int32_t i, int64_t block) {
  if (!push(search, TRAIL_BLOCK, i, search->buffers[i].block)) return false;
  search->buffers[i].block = block;
  return true;
}

bool exact_place(exact_search* search, int32_t i) {
  buffer* item = &search->buffers[i];
  int64_t offset = item->bound;
  int64_t top = offset + item->size;
  if (!push(search, TRAIL_PLACE, i, offset)) return false;
  item->offset = offset;
  item->bound = EXACT_PLACED;
  for (int k = 0; k < item->sections.count; k++) search->sections[item->sections.items[k]].rest -= item->size;
  mark(search, item);
  for (int k = 0; k < item->neighbours.count; k++) {
    int32_t j = item->neighbours.items[k];
    buffer* other = &search->buffers[j];
    if (other->bound == EXACT_PLACED) continue;
    if (offset < other->block && !set_block(search, j, 0)) return false;
    if (other->bound < top && !exact_raise(search, j, top)) return false;
  }
  return true;
}

// A buffer that was not placed at its bound although it could have been: in a solution that cannot be pushed down, some
// neighbour starts in its way, and so it lies above the lowest such neighbour.
static bool follow_block(exact_search* search, int32_t i) {
  buffer* item = &search->buffers[i];
  const buffer* known = &search->buffers[item->supporter];
  int64_t lowest = EXACT_PLACED;
  if (known->bound < item->block && known->bound + known->size == item->support) return true;
  for (int k = 0; k < item->neighbours.count; k++) {
    int32_t j = item->neighbours.items[k];
    const buffer* other = &search->buffers[j];
    if (other->bound < item->block && other->bound + other->size < lowest) {
      lowest = other->bound + other->size;
      item->supporter = j;
    }
  }
  item->support = lowest;
  if (lowest == EXACT_PLACED) return fail(search, item->sections.items[0]);
  return item->bound >= lowest || exact_raise(search, i, lowest);
}

bool exact_postpone(exact_search* search, int32_t i) {
  buffer* item = &search->buffers[i];
  if (item->pin >= 0) return fail(search, item->sections.items[0]);
  item->support = -1;
  return set_block(search, i, item->bound + item->size) && follow_block(search, i);
}

static void sort_live(exact_search* search, section* part) {
  const buffer* buffers = search->buffers;
  int32_t* live = part->live.items;
  for (int k = 1; k < part->live.count; k++) {
    int32_t i = live[k];
    int64_t bound = buffers[i].bound;
    int position = k;
    for (; position > 0 && buffers[live[position - 1]].bound > bound; position--) live[position] = live[position - 1];
    live[position] = i;
  }
}

// Where the stack ends if each buffer goes on as soon as its bound allows: no solution is lower.
static int64_t makespan(const exact_search* search, const section* part) {
  int64_t top = 0;
  for (int k = 0; k < part->live.count; k++) {
    const buffer* item = &search->buffers[part->live.items[k]];
    if (item->bound == EXACT_PLACED) break;
    top = (item->bound > top ? item->bound : top) + item->size;
  }
  return top;
}

// Whether the lowest buffer cannot be the next one up, because the gap between it and the second would be too large.
static bool lowest_is_late(const exact_search* search, const section* part) {
  if (part->live.count < 2) return false;
  const buffer* lowest = &search->buffers[part->live.items[0]];
  const buffer* second = &search->buffers[part->live.items[1]];
  return second->bound != EXACT_PLACED && second->bound > lowest->bound + lowest->size &&
         second->bound + part->rest - lowest->size > search->capacity;
}

// A buffer whose bound leaves no room for all the others above it is not the next one up: it is above one that can be.
static bool look_at_section(exact_search* search, int32_t s) {
  section* part = &search->sections[s];
  const int32_t* live = part->live.items;
  int64_t latest = search->capacity - part->rest;
  int64_t lowest_end = EXACT_PLACED;
  int k = 0;
  part->floor = EXACT_PLACED;
  if (part->rest == 0) return true;
  sort_live(search, part);
  if (makespan(search, part) > search->capacity) return fail(search, s);
  part->floor = search->buffers[live[0]].bound;
  bool late = lowest_is_late(search, part);
  for (k = late; k < part->live.count && search->buffers[live[k]].bound <= latest; k++) {
    const buffer* item = &search->buffers[live[k]];
    if (item->bound + item->size < lowest_end) lowest_end = item->bound + item->size;
  }
  part->candidates = k - late;
  if (lowest_end == EXACT_PLACED) return fail(search, s);
  if (late && search->buffers[live[0]].bound < lowest_end && !exact_raise(search, live[0], lowest_end)) return false;
  for (; k < part->live.count && search->buffers[live[k]].bound < lowest_end; k++) {
    if (!exact_raise(search, live[k], lowest_end)) return false;
  }
  return true;
}

bool exact_propagate(exact_search* search, const int32_t* rest, int n_rest) {
  do {
    while (search->n_queue > 0) {
      int32_t s = search->queue[--search->n_queue];
      search->sections[s].dirty = false;
      if (!look_at_section(search, s)) return false;
    }
    for (int k = 0; k < n_rest; k++) {
      const buffer* item = &search->buffers[rest[k]];
      if (item->bound != EXACT_PLACED && item->block > 0 && !follow_block(search, rest[k])) return false;
    }
  } while (search->n_queue > 0);
  return true;
}
