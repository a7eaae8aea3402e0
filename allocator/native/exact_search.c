// Exact search: branch and bound over what lies at the bottom, with restarts.
//
// Known ideas it stands on: solutions that cannot be pushed down suffice, bounds by the sum of what a section still
// holds, and parts of time that no buffer connects are solved on their own (Moffitt, MiniMalloc, ASPLOS 2023; Maas et
// al., TelaMalloc, ASPLOS 2022). From constraint programming: the choice is made where few buffers can come next and
// where the search failed before (Boussemart et al., dom/wdeg, ECAI 2004), restarts follow Luby's sequence, and states
// that were found to have no solution are remembered by a hash of the bounds, which holds across restarts.
//
// Each step takes a buffer that no other can be below, and tries first to place it at its bound, then not to. When the
// second has failed too, nothing fits above these bounds at all: a solution in which the buffer is higher without a
// reason could be pushed down to one of the first kind. (Reasons that are still owed, `block`, belong to a state as its
// bounds do: they were imposed because of what failed elsewhere.)
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exact_state.h"

int64_t exact_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t exact_nodes(const exact_search* search) { return search->nodes; }

static bool out_of_budget(exact_search* search) {
  if (++search->nodes > search->node_limit || search->no_memory) return true;
  if (search->nodes % 32 != 0) return false;
  return exact_is_cancelled(search->cancel) || exact_clock() > search->deadline;
}

static uint64_t mix(uint64_t bits) {
  bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93u;
  bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93u;
  return bits ^ bits >> 32;
}

static uint64_t hash_of(const exact_search* search, const int32_t* rest, int n_rest) {
  uint64_t sum = mix((uint64_t)search->capacity);
  for (int k = 0; k < n_rest; k++) {
    const buffer* item = &search->buffers[rest[k]];
    sum += mix(mix((uint64_t)item->bound * 1000003u + (uint64_t)item->kind) + (uint64_t)item->block);
  }
  return mix(sum) | 1;
}

static bool has_failed(const exact_search* search, uint64_t hash) {
  uint64_t slot = hash >> 1 & search->failed_mask;
  return search->failed[slot] == hash || search->failed[slot ^ 1] == hash;
}

static void remember(exact_search* search, uint64_t hash) {
  uint64_t slot = hash >> 1 & search->failed_mask;
  search->failed[search->failed[slot] != 0 ? slot ^ 1 : slot] = hash;
}

// Whether no other buffer could be below this one.
static bool is_at_floor(const exact_search* search, const buffer* item) {
  for (int k = 0; k < item->sections.count; k++) {
    if (search->sections[item->sections.items[k]].floor != item->bound) return false;
  }
  return true;
}

// How pressing the choice is at the most critical section of a buffer: where few can be next and many choices failed.
static double urgency(const exact_search* search, const buffer* item) {
  double most = 0;
  for (int k = 0; k < item->sections.count; k++) {
    const section* part = &search->sections[item->sections.items[k]];
    double value = (part->weight + 1) / part->candidates;
    if (value > most) most = value;
  }
  return most;
}

static int32_t choose(const exact_search* search, const int32_t* rest, int n_rest) {
  int32_t best = -1;
  double best_urgency = 0;
  for (int k = 0; k < n_rest; k++) {
    const buffer* item = &search->buffers[rest[k]];
    if (!is_at_floor(search, item)) continue;
    double value = search->lowest_first ? -(double)item->bound : urgency(search, item);
    if (best < 0 || value > best_urgency || (value == best_urgency && item->key > search->buffers[best].key)) {
      best = rest[k];
      best_urgency = value;
    }
  }
  return best;
}

// Copy the buffers of a list that have no place yet to the top of the stack; false if there is no memory.
static bool list_rest(exact_search* search, size_t list, int n_list, int* n_rest) {
  size_t needed = search->n_stack + n_list;
  if (needed > search->stack_capacity) {
    int32_t* grown = realloc(search->stack, 2 * needed * sizeof(int32_t));
    if (grown == NULL) {
      search->no_memory = true;
      return false;
    }
    search->stack = grown;
    search->stack_capacity = 2 * needed;
  }
  const int32_t* from = search->stack + list;
  int32_t* to = search->stack + search->n_stack;
  *n_rest = 0;
  for (int k = 0; k < n_list; k++) {
    if (search->buffers[from[k]].bound != EXACT_PLACED) to[(*n_rest)++] = from[k];
  }
  return true;
}

// Number of buffers at the start of a list that no later one meets in time.
static int first_part(const exact_search* search, size_t list, int n_list) {
  const int32_t* items = search->stack + list;
  int32_t end = search->buffers[items[0]].end;
  int count = 1;
  for (; count < n_list && search->buffers[items[count]].begin < end; count++) {
    if (search->buffers[items[count]].end > end) end = search->buffers[items[count]].end;
  }
  return count;
}

static exact_status descend_by_parts(exact_search* search, size_t list, int n_list) {
  exact_status status = EXACT_FOUND;
  while (n_list > 0 && status == EXACT_FOUND) {
    int count = first_part(search, list, n_list);
    status = exact_descend(search, list, count);
    list += count;
    n_list -= count;
  }
  return status;
}

static bool extend_chain(exact_search* search, uint64_t hash) {
  if (search->n_chain == search->chain_capacity) {
    uint64_t* grown = realloc(search->chain, 2 * search->chain_capacity * sizeof(uint64_t));
    if (grown == NULL) {
      search->no_memory = true;
      return false;
    }
    search->chain = grown;
    search->chain_capacity *= 2;
  }
  search->chain[search->n_chain++] = hash;
  return true;
}

// One choice after the other is refuted at this level, until a solution is found or nothing is left to choose.
static exact_status refute(exact_search* search, size_t list, int n_list) {
  size_t stack = search->n_stack;
  for (;;) {
    int n_rest = 0;
    search->n_stack = stack;
    if (out_of_budget(search)) return EXACT_STOPPED;
    if (!exact_propagate(search, search->stack + list, n_list)) return EXACT_INFEASIBLE;
    if (!list_rest(search, list, n_list, &n_rest)) return EXACT_STOPPED;
    if (n_rest == 0) return EXACT_FOUND;
    search->n_stack += n_rest;
    if (first_part(search, stack, n_rest) < n_rest) return descend_by_parts(search, stack, n_rest);
    uint64_t hash = hash_of(search, search->stack + stack, n_rest);
    if (has_failed(search, hash)) return EXACT_INFEASIBLE;
    if (!extend_chain(search, hash)) return EXACT_STOPPED;
    int32_t chosen = choose(search, search->stack + stack, n_rest);
    int n_trail = search->n_trail;
    exact_status status = EXACT_INFEASIBLE;
    if (exact_place(search, chosen)) status = exact_descend(search, stack, n_rest);
    if (status != EXACT_INFEASIBLE) return status;
    exact_undo(search, n_trail);
    if (!exact_postpone(search, chosen)) return EXACT_INFEASIBLE;
  }
}

exact_status exact_descend(exact_search* search, size_t list, int n_list) {
  size_t stack = search->n_stack;
  int chain = search->n_chain;
  int n_trail = search->n_trail;
  exact_status status = refute(search, list, n_list);
  if (status == EXACT_INFEASIBLE && search->no_memory) status = EXACT_STOPPED;
  if (status == EXACT_INFEASIBLE) {
    for (int k = chain; k < search->n_chain; k++) remember(search, search->chain[k]);
  }
  if (status != EXACT_FOUND) exact_undo(search, n_trail);
  search->n_chain = chain;
  search->n_stack = stack;
  return status;
}
