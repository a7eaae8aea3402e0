// Set-up of the exact search, and the restarts with different preferences.
#include <stdlib.h>
#include <string.h>

#include "exact_state.h"

enum { NODES_OF_A_ROUND = 1000, SMALLEST_TABLE = 1 << 10, LARGEST_TABLE = 1 << 20, LARGEST_PROBLEM = 1 << 22 };

static void* own(exact_search* search, size_t count, size_t nbytes) {
  void* memory = calloc(count + 1, nbytes);
  void** grown = realloc(search->owned, (search->n_owned + 1) * sizeof(void*));
  if (grown != NULL) search->owned = grown;
  if (memory == NULL || grown == NULL) {
    free(memory);
    search->no_memory = true;
    return NULL;
  }
  search->owned[search->n_owned++] = memory;
  return memory;
}

void exact_free(exact_search* search) {
  if (search == NULL) return;
  for (int k = 0; k < search->n_owned; k++) free(search->owned[k]);
  free(search->owned);
  free(search->trail);
  free(search->stack);
  free(search->chain);
  free(search);
}

static int by_value(const void* a, const void* b) {
  int32_t x = *(const int32_t*)a;
  int32_t y = *(const int32_t*)b;
  return (x > y) - (x < y);
}

static int index_of(const int32_t* sorted, int n, int32_t value) {
  int low = 0;
  int high = n - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (sorted[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Cut time where buffers start or end; pieces become ranges of sections.
static bool cut_time(exact_search* search, int n_pieces, const int32_t* first, const int32_t* last, int32_t* begin,
                     int32_t* end) {
  int32_t* times = own(search, 2 * (size_t)n_pieces, sizeof(int32_t));
  int n = 0;
  if (times == NULL) return false;
  memcpy(times, first, n_pieces * sizeof(int32_t));
  memcpy(times + n_pieces, last, n_pieces * sizeof(int32_t));
  qsort(times, 2 * (size_t)n_pieces, sizeof(int32_t), by_value);
  for (int k = 0; k < 2 * n_pieces; k++) {
    if (n == 0 || times[n - 1] != times[k]) times[n++] = times[k];
  }
  for (int p = 0; p < n_pieces; p++) {
    begin[p] = index_of(times, n, first[p]);
    end[p] = index_of(times, n, last[p]);
  }
  search->n_sections = n > 0 ? n - 1 : 0;
  return true;
}

// List the sections of each buffer and the buffers of each section, each once.
static bool list_sections(exact_search* search, int n_pieces, const int32_t* owner, const int32_t* begin,
                          const int32_t* end) {
  int64_t total = 0;
  search->sections = own(search, search->n_sections, sizeof(section));
  search->queue = own(search, search->n_sections, sizeof(int32_t));
  if (search->no_memory) return false;
  for (int p = 0; p < n_pieces; p++) {
    search->buffers[owner[p]].sections.count += end[p] - begin[p];
    total += end[p] - begin[p];
  }
  if (total > LARGEST_PROBLEM) return false;
  for (int i = 0; i < search->n; i++) {
    buffer* item = &search->buffers[i];
    item->sections.items = own(search, item->sections.count, sizeof(int32_t));
    item->sections.count = 0;
    if (search->no_memory) return false;
  }
  for (int p = 0; p < n_pieces; p++) {
    int_list* list = &search->buffers[owner[p]].sections;
    for (int32_t s = begin[p]; s < end[p]; s++) list->items[list->count++] = s;
  }
  for (int i = 0; i < search->n; i++) {
    int_list* list = &search->buffers[i].sections;
    int count = 0;
    qsort(list->items, list->count, sizeof(int32_t), by_value);
    for (int k = 0; k < list->count; k++) {
      if (count == 0 || list->items[count - 1] != list->items[k]) list->items[count++] = list->items[k];
    }
    list->count = count;
    search->buffers[i].begin = list->items[0];
    search->buffers[i].end = list->items[count - 1] + 1;
    for (int k = 0; k < count; k++) search->sections[list->items[k]].live.count++;
  }
  return true;
}

static bool fill_sections(exact_search* search) {
  for (int s = 0; s < search->n_sections; s++) {
    int_list* live = &search->sections[s].live;
    live->items = own(search, live->count, sizeof(int32_t));
    live->count = 0;
    if (search->no_memory) return false;
  }
  for (int i = 0; i < search->n; i++) {
    const buffer* item = &search->buffers[i];
    for (int k = 0; k < item->sections.count; k++) {
      section* part = &search->sections[item->sections.items[k]];
      part->live.items[part->live.count++] = i;
      part->rest += item->size;
    }
  }
  return true;
}

static bool list_neighbours(exact_search* search) {
  int32_t* seen = own(search, search->n, sizeof(int32_t));
  int32_t* found = own(search, search->n, sizeof(int32_t));
  if (search->no_memory) return false;
  for (int i = 0; i < search->n; i++) {
    buffer* item = &search->buffers[i];
    int n = 0;
    seen[i] = i + 1;
    for (int k = 0; k < item->sections.count; k++) {
      const int_list* live = &search->sections[item->sections.items[k]].live;
      for (int l = 0; l < live->count; l++) {
        if (seen[live->items[l]] == i + 1) continue;
        seen[live->items[l]] = i + 1;
        found[n++] = live->items[l];
      }
    }
    item->neighbours.items = own(search, n, sizeof(int32_t));
    if (search->no_memory) return false;
    memcpy(item->neighbours.items, found, n * sizeof(int32_t));
    item->neighbours.count = n;
  }
  return true;
}

static bool same_lifetime(const buffer* a, const buffer* b) {
  return a->sections.count == b->sections.count &&
         memcmp(a->sections.items, b->sections.items, a->sections.count * sizeof(int32_t)) == 0;
}

static void name_kinds(exact_search* search) {
  for (int32_t i = 0; i < search->n; i++) {
    buffer* item = &search->buffers[i];
    item->kind = i;
    for (int k = 0; k < item->neighbours.count && item->neighbours.items[k] < i; k++) {
      const buffer* other = &search->buffers[item->neighbours.items[k]];
      if (other->size == item->size && other->step == item->step && other->pin == item->pin &&
          same_lifetime(item, other)) {
        item->kind = other->kind;
        break;
      }
    }
  }
}

// What the preferences go by: the part of all time that a buffer is live, and its fullest section.
static void measure(exact_search* search, int n_pieces, const int32_t* owner, const int32_t* first,
                    const int32_t* last) {
  int32_t begin = n_pieces > 0 ? first[0] : 0;
  int32_t end = n_pieces > 0 ? last[0] : 1;
  for (int p = 0; p < n_pieces; p++) {
    if (first[p] < begin) begin = first[p];
    if (last[p] > end) end = last[p];
  }
  for (int p = 0; p < n_pieces; p++) {
    search->buffers[owner[p]].length += ((double)last[p] - first[p]) / ((double)end - begin);
  }
  for (int i = 0; i < search->n; i++) {
    buffer* item = &search->buffers[i];
    for (int k = 0; k < item->sections.count; k++) {
      double sum = (double)search->sections[item->sections.items[k]].rest;
      if (sum > item->breadth) item->breadth = sum;
    }
  }
}

static bool build(exact_search* search, int n_pieces, const int32_t* owner, const int32_t* first, const int32_t* last) {
  uint64_t table = SMALLEST_TABLE;
  int32_t* begin = own(search, n_pieces, sizeof(int32_t));
  int32_t* end = own(search, n_pieces, sizeof(int32_t));
  while (table < LARGEST_TABLE && table < 4096 * (uint64_t)search->n) table *= 2;
  search->failed = own(search, table, sizeof(uint64_t));
  search->failed_mask = table - 1;
  search->trail_capacity = 1024;
  search->chain_capacity = 256;
  search->trail = malloc(search->trail_capacity * sizeof(trail_entry));
  search->chain = malloc(search->chain_capacity * sizeof(uint64_t));
  if (search->no_memory || search->trail == NULL || search->chain == NULL) return false;
  if (!cut_time(search, n_pieces, first, last, begin, end)) return false;
  if (!list_sections(search, n_pieces, owner, begin, end) || !fill_sections(search)) return false;
  if (!list_neighbours(search)) return false;
  name_kinds(search);
  measure(search, n_pieces, owner, first, last);
  return true;
}

exact_search* exact_new(int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins, int n_pieces,
                        const int32_t* owner, const int32_t* first, const int32_t* last) {
  exact_search* search = calloc(1, sizeof(exact_search));
  if (search == NULL) return NULL;
  search->n = n;
  search->buffers = own(search, n, sizeof(buffer));
  if (search->no_memory) {
    exact_free(search);
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    buffer* item = &search->buffers[i];
    item->size = sizes[i];
    item->step = steps[i];
    item->pin = pins == NULL ? -1 : pins[i];
    if (item->pin >= 0) search->has_pins = true;
  }
  if (!build(search, n_pieces, owner, first, last)) {
    exact_free(search);
    return NULL;
  }
  return search;
}

static double random_number(exact_search* search) {  // xorshift: uniform in [0, 1)
  search->random ^= search->random << 13;
  search->random ^= search->random >> 7;
  search->random ^= search->random << 17;
  return (double)(search->random >> 11) / 9007199254740992.0;
}

// The preferences of a round. Going by the lowest bound and the longest lifetime is best where there is some slack,
// going by the most urgent section where there is none; so they take turns. After the first times with noise.
static void prefer(exact_search* search, int round) {
  int turn = round / 2;
  double noise = turn == 0 ? 0 : 0.2;
  search->lowest_first = round % 2 == 0;
  for (int i = 0; i < search->n; i++) {
    buffer* item = &search->buffers[i];
    double size = (double)item->size / (double)search->capacity;
    double length = item->length;
    double breadth = item->breadth / (double)search->capacity;
    if (search->lowest_first) {
      item->key = 1e3 * length + size * length;
    } else if (turn % 3 == 0) {
      item->key = 1e3 * breadth + length;
    } else {
      item->key = turn % 3 == 1 ? 1e3 * length + size * length : 1e3 * breadth + size * length;
    }
    item->key *= 1 + noise * (random_number(search) - 0.5);
  }
}

static int64_t luby(int64_t i) {  // 1 1 2 1 1 2 4 1 1 2 ... for i = 1, 2, 3, ...
  int64_t power = 1;
  while (power - 1 < i) power *= 2;
  return power - 1 == i ? power / 2 : luby(i - power / 2 + 1);
}

static exact_status solve_in_rounds(exact_search* search, int64_t max_nodes) {
  exact_status status = EXACT_STOPPED;
  for (int round = 0; status == EXACT_STOPPED; round++) {
    int64_t left = max_nodes - search->nodes;
    int64_t share = NODES_OF_A_ROUND * luby(round / 2 + 1);
    if (left <= 0 || search->no_memory || exact_clock() > search->deadline) break;
    if (exact_is_cancelled(search->cancel)) break;
    search->node_limit = search->nodes + (share < left ? share : left);
    prefer(search, round);
    exact_mark_all(search);
    status = exact_descend(search, 0, search->n);
  }
  return status;
}

// All buffers, by their first section, at the bottom of the stack; bounds as low as the pins allow.
static bool start(exact_search* search) {
  if (search->stack_capacity < (size_t)search->n) {
    int32_t* grown = realloc(search->stack, (size_t)search->n * sizeof(int32_t));
    if (grown == NULL) return false;
    search->stack = grown;
    search->stack_capacity = search->n;
  }
  search->n_stack = 0;
  for (int32_t s = 0; s < search->n_sections; s++) {
    const int_list* live = &search->sections[s].live;
    search->sections[s].weight = 0;
    for (int k = 0; k < live->count; k++) {
      if (search->buffers[live->items[k]].begin == s) search->stack[search->n_stack++] = live->items[k];
    }
  }
  for (int32_t i = 0; i < search->n; i++) {
    buffer* item = &search->buffers[i];
    item->bound = item->pin >= 0 ? item->pin : exact_next_free(search, i, 0);
    item->block = 0;
  }
  search->n_trail = 0;
  search->n_chain = 0;
  search->nodes = 0;
  search->random = 0x9E3779B97F4A7C15u;
  return true;
}

static void reset_rest(exact_search* search) {
  for (int s = 0; s < search->n_sections; s++) search->sections[s].rest = 0;
  for (int i = 0; i < search->n; i++) {
    const buffer* item = &search->buffers[i];
    for (int k = 0; k < item->sections.count; k++) search->sections[item->sections.items[k]].rest += item->size;
  }
}

exact_status exact_solve(exact_search* search, int64_t capacity, int64_t max_nodes, int64_t deadline, const int* cancel,
                         int64_t* offsets) {
  search->no_memory = false;
  if (!start(search)) return EXACT_NO_MEMORY;
  search->capacity = capacity;
  search->deadline = deadline;
  search->cancel = cancel;
  exact_status status = solve_in_rounds(search, max_nodes);
  if (search->no_memory) return EXACT_NO_MEMORY;
  if (status == EXACT_FOUND) {
    for (int i = 0; i < search->n; i++) offsets[i] = search->buffers[i].offset;
    reset_rest(search);
  }
  return status;
}
