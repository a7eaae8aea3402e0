// Minimising the peak by searching within smaller and smaller capacities; and placing by a given order.
#include "exact_state.h"

enum { DIVE = 200, CLOSE = 512 };

typedef struct {
  exact_search* search;
  int64_t* offsets;
  int64_t* peak;
  int64_t proven;  // no solution is lower
  int64_t nodes_left;
  int64_t deadline;
  const int* cancel;
  bool improved;
} descent;

static bool goes_on(const descent* self) {
  return *self->peak > self->proven && self->nodes_left > 0 && !self->search->no_memory &&
         exact_clock() < self->deadline && !exact_is_cancelled(self->cancel);
}

static int64_t peak_of(const exact_search* search) {
  int64_t peak = 0;
  for (int i = 0; i < search->n; i++) {
    int64_t end = search->buffers[i].offset + search->buffers[i].size;
    if (end > peak) peak = end;
  }
  return peak;
}

static exact_status try_capacity(descent* self, int64_t capacity, int64_t share) {
  if (share > self->nodes_left) share = self->nodes_left;
  exact_status status = exact_solve(self->search, capacity, share, self->deadline, self->cancel, self->offsets);
  self->nodes_left -= exact_nodes(self->search);
  if (status == EXACT_FOUND) {
    *self->peak = peak_of(self->search);
    self->improved = true;
  }
  if (status == EXACT_INFEASIBLE) self->proven = capacity + 1;
  return status;
}

exact_status exact_improve(exact_search* search, int64_t bound, int64_t* peak, int64_t max_nodes, int64_t deadline,
                           const int* cancel, int64_t* offsets) {
  descent self = {search, offsets, peak, bound, max_nodes, deadline, cancel, false};
  int64_t share = 2 * (int64_t)search->n + DIVE;  // a way down without a failure takes n nodes
  for (; goes_on(&self); share *= 2) {
    int64_t low = self.proven;
    try_capacity(&self, low, share);
    while (goes_on(&self) && *peak - low > *peak / CLOSE + 1) {
      int64_t middle = low + (*peak - low) / 2;
      if (try_capacity(&self, middle, share) != EXACT_FOUND) low = middle;
    }
    if (goes_on(&self)) try_capacity(&self, *peak - 1, share);
  }
  if (self.improved) return EXACT_FOUND;
  if (search->no_memory) return EXACT_NO_MEMORY;
  return *peak <= self.proven ? EXACT_INFEASIBLE : EXACT_STOPPED;
}

static int64_t lowest_fit(const exact_search* search, const buffer* item) {
  int64_t offset = 0;
  for (int k = 0; k < item->neighbours.count; k++) {
    const buffer* other = &search->buffers[item->neighbours.items[k]];
    if (other->offset >= 0 && other->offset < offset + item->size && other->offset + other->size > offset) {
      offset = exact_align(other->offset + other->size, item->step);
      k = -1;
    }
  }
  return offset;
}

int64_t exact_first_fit(exact_search* search, const int32_t* order, int64_t* offsets) {
  for (int i = 0; i < search->n; i++) search->buffers[i].offset = search->buffers[i].pin;
  for (int k = 0; k < search->n; k++) {
    buffer* item = &search->buffers[order[k]];
    if (item->pin < 0) item->offset = lowest_fit(search, item);
  }
  for (int i = 0; i < search->n; i++) offsets[i] = search->buffers[i].offset;
  return peak_of(search);
}
