#include "heap_core.h"

#include <stdlib.h>
#include <string.h>

#include "heap_bins.h"

enum { FIRST_CAPACITY = 64, LARGEST_CAPACITY = 1 << 30, SLACK_SHIFT = 4, MOST_NODES_TAKEN = 3 };

static inline int64_t align_up(int64_t value, int64_t alignment) { return (value + alignment - 1) & -alignment; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }
static inline HeapHandle handle_of(const HeapCore* heap, uint32_t node) {
  return (HeapHandle){node, heap->nodes[node].generation};
}

/* ---- index of live ranges by offset ---- */

/* Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4). */
static inline uint32_t* bucket_of(const HeapCore* heap, int64_t offset) {
  uint64_t hash = (uint64_t)(offset >> heap->granule_shift) * 0x9E3779B97F4A7C15u;
  return &heap->buckets[hash >> (64 - heap->bucket_bits)];
}

static inline void index_insert(HeapCore* heap, uint32_t node) {
  if (heap->buckets == NULL) return;
  uint32_t* bucket = bucket_of(heap, heap->nodes[node].offset);
  heap->nodes[node].chained = *bucket;
  *bucket = node;
}

static inline void index_remove(HeapCore* heap, uint32_t node) {
  if (heap->buckets == NULL) return;
  uint32_t* place = bucket_of(heap, heap->nodes[node].offset);
  while (*place != node) place = &heap->nodes[*place].chained;
  *place = heap->nodes[node].chained;
}

int heap_find(const HeapCore* heap, int64_t offset, HeapHandle* handle) {
  if (offset < 0 || offset >= heap->top || heap->buckets == NULL) return HEAP_NOT_LIVE;
  uint32_t node = *bucket_of(heap, offset);
  while (node != HEAP_ENDS && heap->nodes[node].offset != offset) node = heap->nodes[node].chained;
  if (node == HEAP_ENDS) return HEAP_NOT_LIVE;
  *handle = handle_of(heap, node);
  return HEAP_OK;
}

/* ---- nodes ---- */

static int grow_index(HeapCore* heap, uint32_t capacity) {
  int bits = 63 - __builtin_clzll(capacity);
  uint32_t* buckets = calloc((size_t)1 << bits, sizeof *buckets);
  if (buckets == NULL) return HEAP_NO_METADATA;
  free(heap->buckets);
  heap->buckets = buckets;
  heap->bucket_bits = bits;
  for (uint32_t node = heap->nodes[HEAP_ENDS].after; node != HEAP_ENDS; node = heap->nodes[node].after) {
    if (heap->nodes[node].requested >= 0) index_insert(heap, node); /* what was freed last is in no chain */
  }
  return HEAP_OK;
}

/* Twice as many nodes; on failure the tables stay as they were, apart from spare room. */
static COLD int grow_nodes(HeapCore* heap, bool indexed) {
  uint32_t capacity = heap->capacity == 0 ? FIRST_CAPACITY : 2 * heap->capacity;
  if (capacity > LARGEST_CAPACITY) return HEAP_NO_METADATA;
  HeapNode* nodes = aligned_alloc(sizeof *nodes, capacity * sizeof *nodes);
  if (nodes == NULL) return HEAP_NO_METADATA;
  if (heap->capacity > 0) memcpy(nodes, heap->nodes, heap->capacity * sizeof *nodes);
  free(heap->nodes);
  heap->nodes = nodes;
  HeapLink* links = realloc(heap->links, ((size_t)HEAP_RINGS + capacity) * sizeof *links);
  if (links == NULL) return HEAP_NO_METADATA;
  heap->links = links;
  uint32_t* spare = realloc(heap->spare, capacity * sizeof *spare);
  if (spare == NULL) return HEAP_NO_METADATA;
  heap->spare = spare;
  if (heap->capacity == 0) { /* the first call */
    for (uint32_t ring = 0; ring < HEAP_RINGS; ring++) links[ring] = (HeapLink){ring, ring};
    links[HEAP_END_RING].next = HEAP_RINGS + HEAP_ENDS;
    heap->classes[HEAP_END_RING / 64] = (uint64_t)1 << (HEAP_END_RING % 64);
    heap->words = (uint32_t)1 << (HEAP_END_RING / 64);
  }
  memset(nodes + heap->capacity, 0, (capacity - heap->capacity) * sizeof *nodes);
  if (indexed && grow_index(heap, capacity) != HEAP_OK) return HEAP_NO_METADATA;
  for (uint32_t node = capacity; node-- > heap->capacity;) {
    nodes[node].requested = HEAP_FREE;
    if (node >= HEAP_FIRST_NODE) spare[heap->n_spare++] = node;
  }
  nodes[HEAP_ENDS].requested = HEAP_BEYOND;
  nodes[HEAP_ENDS].size = INT64_MAX; /* ends a search, because anything fits, and is never the size asked for */
  heap->capacity = capacity;
  return HEAP_OK;
}

/* Having the nodes that a split can take first means that it cannot fail half way. */
static inline int reserve_nodes(HeapCore* heap) {
  return heap->n_spare < MOST_NODES_TAKEN ? grow_nodes(heap, heap->buckets != NULL) : HEAP_OK;
}

/* A node for the range behind `before` in address order. */
static inline uint32_t insert_node(HeapCore* heap, int64_t offset, int64_t size, uint32_t before) {
  uint32_t node = heap->spare[--heap->n_spare];
  HeapNode* nodes = heap->nodes;
  uint32_t after = nodes[before].after;
  nodes[node].offset = offset;
  nodes[node].size = size;
  nodes[node].before = before;
  nodes[before].after = node;
  nodes[after].before = node;
  nodes[node].after = after;
  return node;
}

int heap_init(HeapCore* heap, int64_t limit, int64_t origin, int64_t granule, bool indexed) {
  memset(heap, 0, sizeof *heap);
  if (limit < 0 || limit > HEAP_LARGEST || origin < 0 || origin > HEAP_LARGEST) return HEAP_BAD_ARGUMENT;
  if (!is_power_of_two(granule) || granule > HEAP_LARGEST || (origin & (granule - 1)) != 0) return HEAP_BAD_ARGUMENT;
  heap->granule = granule;
  heap->lowest_bin = 0;
  heap->lowest_bin = heap_bin(heap, granule);
  heap->granule_shift = __builtin_ctzll((uint64_t)granule);
  heap->limit = limit & -granule;
  heap->origin = origin;
  if (grow_nodes(heap, indexed) != HEAP_OK) {
    heap_destroy(heap);
    return HEAP_NO_METADATA;
  }
  return HEAP_OK;
}

void heap_destroy(HeapCore* heap) {
  free(heap->nodes);
  free(heap->links);
  free(heap->spare);
  free(heap->buckets);
  memset(heap, 0, sizeof *heap);
}

/* ---- merge ---- */

/* Take a free neighbour out of its list and drop its node; gives its size. */
static inline int64_t absorb(HeapCore* heap, HeapNode* range, uint32_t neighbour) {
  heap_unlist(heap, neighbour);
  range->backed += heap->nodes[neighbour].backed;
  heap->spare[heap->n_spare++] = neighbour;
  return heap->nodes[neighbour].size;
}

/* Join a range that is neither live nor listed with its free neighbours and list it, or lower top to its start. */
static INLINE void merge(HeapCore* heap, uint32_t node) {
  HeapNode *nodes = heap->nodes, *range = &nodes[node];
  uint32_t before = range->before, after = range->after;
  int64_t size = range->size;
  if (nodes[before].requested == HEAP_FREE) {
    size += absorb(heap, range, before);
    range->offset = nodes[before].offset;
    range->before = before = nodes[before].before;
    nodes[before].after = node;
  }
  if (nodes[after].requested == HEAP_FREE) {
    size += absorb(heap, range, after);
    range->after = after = nodes[after].after;
    nodes[after].before = node;
  }
  if (after != HEAP_ENDS) {
    range->size = size;
    heap_list(heap, node, size);
    return;
  }
  nodes[before].after = HEAP_ENDS;
  nodes[HEAP_ENDS].before = before;
  heap->top = range->offset;
  heap->tail_backed += range->backed;
  heap->spare[heap->n_spare++] = node;
  range->requested = HEAP_FREE;
}

static INLINE void settle_pending(HeapCore* heap) {
  uint32_t node = heap->pending;
  heap->pending = HEAP_ENDS;
  if (node != HEAP_ENDS) merge(heap, node);
}

void heap_settle(HeapCore* heap) { settle_pending(heap); }

/* ---- alloc ---- */

/* More is backed than ever before. What is left of ranges smaller than a page must not be looked through every time. */
static COLD void meet_budget(HeapCore* heap) {
  int64_t slack = heap->peak >> SLACK_SHIFT;
  heap_settle(heap);
  if (heap->backed > larger(heap->peak + slack, heap->budget_missed)) {
    heap_release_down_to(heap, heap->peak + slack);
    if (heap->backed > heap->peak + slack) heap->budget_missed = heap->backed + slack;
  }
  heap->peak_backed = larger(heap->peak_backed, heap->backed);
}

/* Count `size` bytes of a range with `backed` of `whole` bytes backed as in use; gives what stays backed of the rest.
 */
static inline int64_t occupy(HeapCore* heap, int64_t size, int64_t whole, int64_t backed) {
  heap->occupied += size;
  if (heap->release == NULL) return 0;
  int64_t rest = smaller(backed, whole - size);
  heap->backed += size - (backed - rest);
  return rest;
}

static inline void account(HeapCore* heap, int64_t nbytes) {
  heap->live += nbytes;
  heap->peak = larger(heap->peak, heap->live);
  if (UNLIKELY(heap->backed > heap->peak_backed)) meet_budget(heap);
}

/* Take the first `size` bytes of a free range that is in no list any more; what is left becomes a range of its own. */
static inline void split(HeapCore* heap, uint32_t node, int64_t size) {
  HeapNode* range = &heap->nodes[node];
  int64_t rest = range->size - size;
  int64_t backed = occupy(heap, size, range->size, range->backed);
  if (rest == 0) return;
  range->size = size;
  uint32_t after = insert_node(heap, range->offset + size, rest, node);
  heap->nodes[after].backed = backed;
  heap_list(heap, after, rest);
}

static inline uint32_t cut_front(HeapCore* heap, uint32_t node, int64_t size) {
  heap_unlist(heap, node);
  split(heap, node, size);
  return node;
}

/* The same for `size` bytes at `start`. */
static uint32_t carve(HeapCore* heap, uint32_t node, int64_t start, int64_t size) {
  HeapNode* range = &heap->nodes[node];
  int64_t lead = start - range->offset;
  if (lead == 0) return cut_front(heap, node, size);
  heap_unlist(heap, node);
  uint32_t rest = insert_node(heap, start, range->size - lead, node);
  heap->nodes[rest].backed = smaller(range->backed, range->size - lead);
  range->size = lead;
  range->backed -= heap->nodes[rest].backed;
  heap_list(heap, node, lead);
  split(heap, rest, size);
  return rest;
}

/* Move top up over `size` bytes. */
static inline void raise_top(HeapCore* heap, int64_t size) {
  int64_t top = heap->top + size;
  heap->tail_backed = occupy(heap, size, larger(heap->extent, top) - heap->top, heap->tail_backed);
  heap->top = top;
  heap->extent = larger(heap->extent, top);
}

/* Memory never handed out, or given back at the top. */
static inline uint32_t bump(HeapCore* heap, int64_t size) {
  if (UNLIKELY(heap->top > heap->limit - size)) return HEAP_ENDS;
  uint32_t node = insert_node(heap, heap->top, size, heap->nodes[HEAP_ENDS].before);
  raise_top(heap, size);
  return node;
}

/* The same at a multiple of the alignment; what is skipped becomes a free range. */
static uint32_t bump_aligned(HeapCore* heap, int64_t size, int64_t alignment) {
  int64_t start = align_up(heap->origin + heap->top, alignment) - heap->origin, lead = start - heap->top;
  if (start > heap->limit - size) return HEAP_ENDS;
  if (lead > 0) {
    uint32_t skipped = insert_node(heap, heap->top, lead, heap->nodes[HEAP_ENDS].before);
    heap->nodes[skipped].backed = smaller(heap->tail_backed, lead);
    heap->tail_backed -= heap->nodes[skipped].backed;
    heap->top = start;
    heap->extent = larger(heap->extent, start);
    heap_list(heap, skipped, lead);
  }
  return bump(heap, size);
}

/* A place for a block that needs more than the granule's alignment. */
static COLD uint32_t place_aligned(HeapCore* heap, int64_t size, int64_t alignment) {
  int64_t padding = alignment - heap->granule;
  for (int64_t needed = size; needed <= size + padding; needed += padding) {
    uint32_t node = heap_fit(heap, needed);
    if (node == HEAP_ENDS) break;
    int64_t start = align_up(heap->origin + heap->nodes[node].offset, alignment) - heap->origin;
    if (start - heap->nodes[node].offset <= heap->nodes[node].size - size) return carve(heap, node, start, size);
  }
  return bump_aligned(heap, size, alignment);
}

static inline HeapHandle failure(int status) { return (HeapHandle){0, (uint32_t)status}; }

static inline HeapHandle start_life(HeapCore* heap, uint32_t node, int64_t nbytes) {
  if (UNLIKELY(node == HEAP_ENDS)) return failure(HEAP_FULL);
  HeapNode* block = &heap->nodes[node];
  block->requested = nbytes;
  block->backed = heap->allocations++;
  index_insert(heap, node);
  account(heap, nbytes);
  return (HeapHandle){node, block->generation};
}

/* A block in the best free range or at the top, after the range freed last has been merged. */
static NOINLINE HeapHandle alloc_elsewhere(HeapCore* heap, int64_t nbytes, int64_t size) {
  settle_pending(heap);
  uint32_t node = heap_take(heap, size);
  if (node == HEAP_ENDS) return start_life(heap, bump(heap, size), nbytes);
  split(heap, node, size);
  return start_life(heap, node, nbytes);
}

/* The same; where the range freed last ends at top and no other is free, it becomes the block with another size, as if
 * it were merged and memory were taken at the top again. */
static NOINLINE HeapHandle alloc_at_top(HeapCore* heap, int64_t nbytes, int64_t size) {
  uint32_t node = heap->pending;
  HeapNode* range = &heap->nodes[node];
  if (node == HEAP_ENDS || range->after != HEAP_ENDS || heap_n_free(heap) != 0 || range->offset > heap->limit - size) {
    return alloc_elsewhere(heap, nbytes, size);
  }
  heap->pending = HEAP_ENDS;
  heap->top = range->offset;
  heap->tail_backed += range->backed;
  range->size = size;
  raise_top(heap, size);
  return start_life(heap, node, nbytes);
}

/* Alignments, zero bytes, bad arguments, and tables to grow. */
COLD HeapHandle heap_alloc_aligned(HeapCore* heap, int64_t nbytes, int64_t alignment) {
  if (nbytes < 0 || !is_power_of_two(alignment)) return failure(HEAP_BAD_ARGUMENT);
  if (nbytes > heap->limit || alignment > HEAP_LARGEST) return failure(HEAP_FULL);
  if (reserve_nodes(heap) != HEAP_OK) return failure(HEAP_NO_METADATA);
  int64_t size = align_up(nbytes + (nbytes == 0), heap->granule);
  if (alignment <= heap->granule) return alloc_elsewhere(heap, nbytes, size);
  heap_settle(heap);
  return start_life(heap, place_aligned(heap, size, alignment), nbytes);
}

HeapHandle heap_alloc(HeapCore* heap, int64_t nbytes) {
  bool simple = (uint64_t)(nbytes - 1) < (uint64_t)heap->limit && heap->n_spare >= MOST_NODES_TAKEN;
  if (UNLIKELY(!simple)) return heap_alloc_aligned(heap, nbytes, 1);
  int64_t size = align_up(nbytes, heap->granule);
  uint32_t node = heap->pending;
  if (heap->nodes[node].size != size) return alloc_at_top(heap, nbytes, size);
  heap->pending = HEAP_ENDS;
  heap->occupied += size;
  return start_life(heap, node, nbytes);
}

/* ---- free ---- */

/* The rest of heap_free if there is a range that was freed before. */
static NOINLINE int merge_former(HeapCore* heap, uint32_t node) {
  merge(heap, node);
  return HEAP_OK;
}

int heap_free(HeapCore* heap, HeapHandle handle) {
  if (UNLIKELY(!heap_is_live(heap, handle))) return HEAP_NOT_LIVE;
  HeapNode* block = &heap->nodes[handle.node];
  index_remove(heap, handle.node);
  if (block->scoped) {
    heap_ring_remove(heap->links, HEAP_RINGS + handle.node);
    block->scoped = false;
  }
  heap->frees++;
  heap->live -= block->requested;
  heap->occupied -= block->size;
  block->generation++;
  block->requested = HEAP_PENDING;
  block->backed = block->size;
  uint32_t former = heap->pending;
  heap->pending = handle.node;
  return former != HEAP_ENDS ? merge_former(heap, former) : HEAP_OK;
}

/* ---- resize ---- */

/* Take `more` bytes from what lies behind a live range; false if they are in use. */
static bool extend(HeapCore* heap, uint32_t node, int64_t more) {
  HeapNode* block = &heap->nodes[node];
  uint32_t after = block->after;
  if (after == HEAP_ENDS) {
    if (more > heap->limit - heap->top) return false;
    raise_top(heap, more);
  } else {
    HeapNode* behind = &heap->nodes[after];
    if (behind->requested != HEAP_FREE || behind->size < more) return false;
    cut_front(heap, after, more);
    block->after = behind->after;
    heap->nodes[behind->after].before = node;
    heap->spare[heap->n_spare++] = after;
  }
  block->size += more;
  return true;
}

static void cut(HeapCore* heap, uint32_t node, int64_t less) {
  HeapNode* block = &heap->nodes[node];
  block->size -= less;
  heap->occupied -= less;
  uint32_t rest = insert_node(heap, block->offset + block->size, less, node);
  heap->nodes[rest].backed = less;
  merge(heap, rest);
}

int heap_resize(HeapCore* heap, HeapHandle handle, int64_t nbytes) {
  if (nbytes < 0) return HEAP_BAD_ARGUMENT;
  if (!heap_is_live(heap, handle)) return HEAP_NOT_LIVE;
  if (nbytes > heap->limit) return HEAP_FULL;
  if (reserve_nodes(heap) != HEAP_OK) return HEAP_NO_METADATA;
  heap_settle(heap);
  HeapNode* block = &heap->nodes[handle.node];
  int64_t more = align_up(nbytes + (nbytes == 0), heap->granule) - block->size;
  if (more > 0 && !extend(heap, handle.node, more)) return HEAP_FULL;
  if (more < 0) cut(heap, handle.node, -more);
  int64_t grown = nbytes - block->requested;
  block->requested = nbytes;
  account(heap, grown);
  return HEAP_OK;
}

int64_t heap_largest_free(const HeapCore* heap) {
  int word = HEAP_BINS / 64 - 1;
  while (word >= 0 && heap->classes[word] == 0) word--;
  if (word < 0) return 0;
  uint32_t head = (uint32_t)(word * 64 + 63 - __builtin_clzll(heap->classes[word]));
  int64_t largest = 0;
  for (uint32_t link = heap->links[head].next; link != head; link = heap->links[link].next) {
    largest = larger(largest, heap->nodes[link - HEAP_RINGS].size);
  }
  return largest;
}
