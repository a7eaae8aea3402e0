// State of the exact search, shared by its parts: the problem, bounds that grow from the bottom up, and a trail to
// undo.
#ifndef ETARENA_ALLOCATOR_EXACT_STATE_H_
#define ETARENA_ALLOCATOR_EXACT_STATE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exact.h"

#define EXACT_PLACED ((int64_t)1 << 62)  // bound of a buffer that has its place: out of everybody's way

typedef enum { TRAIL_BOUND, TRAIL_BLOCK, TRAIL_PLACE } trail_kind;

typedef struct {
  int64_t old;
  int32_t buffer;
  trail_kind kind;
} trail_entry;

typedef struct {
  int32_t* items;
  int count;
} int_list;

typedef struct {   // a maximal span of time in which no buffer starts or ends
  int_list live;   // its buffers, kept nearly sorted by bound
  int64_t rest;    // bytes of those that have no place yet
  int64_t floor;   // smallest bound among these
  int candidates;  // how many of them could be the next one up
  double weight;   // grows each time the section has no solution
  bool dirty;
} section;

typedef struct {
  int64_t size;
  int64_t step;
  int64_t bound;    // smallest offset that the buffer can still have, or EXACT_PLACED
  int64_t offset;   // once placed
  int64_t pin;      // offset it must have, or -1
  int64_t block;    // >0: not placed at its bound once, so some neighbour must start below this address
  int64_t support;  // end of the lowest such neighbour when it was last looked for
  int32_t supporter;
  int32_t kind;   // equal for buffers with equal size, step, pin and lifetime
  int32_t begin;  // first section and one past the last; there may be holes between
  int32_t end;
  int_list sections;
  int_list neighbours;
  double length;   // part of all time that it is live
  double breadth;  // bytes of its fullest section
  double key;      // static preference, larger first
} buffer;

struct exact_search {
  int n;
  int n_sections;
  bool has_pins;
  int64_t capacity;
  buffer* buffers;
  section* sections;
  int32_t* queue;  // dirty sections
  int n_queue;
  trail_entry* trail;
  int n_trail;
  int trail_capacity;
  int32_t* stack;  // lists of remaining buffers, one for each level of the search
  size_t n_stack;
  size_t stack_capacity;
  uint64_t* chain;  // hashes of the states on the way down
  int n_chain;
  int chain_capacity;
  uint64_t* failed;  // hashes of states without a solution
  uint64_t failed_mask;
  bool lowest_first;  // how to choose: the lowest bound, or the most urgent section
  int64_t nodes;
  int64_t node_limit;
  int64_t deadline;
  const int* cancel;
  bool no_memory;
  uint64_t random;
  void** owned;  // memory to free in the end
  int n_owned;
};

static inline bool exact_is_cancelled(const int* cancel) {
  return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

static inline int64_t exact_align(int64_t value, int64_t step) { return (value + step - 1) & -step; }

// exact_bounds.c: all of these give false if there is no solution below.
bool exact_raise(exact_search* search, int32_t i, int64_t bound);
bool exact_place(exact_search* search, int32_t i);
bool exact_postpone(exact_search* search, int32_t i);
bool exact_propagate(exact_search* search, const int32_t* rest, int n_rest);
void exact_undo(exact_search* search, int n_trail);
void exact_mark_all(exact_search* search);
int64_t exact_next_free(const exact_search* search, int32_t i, int64_t bound);

// exact_search.c: look for a solution in which the given buffers, sorted by their first section, get their places.
exact_status exact_descend(exact_search* search, size_t list, int n_list);

#endif  // ETARENA_ALLOCATOR_EXACT_STATE_H_
