/* The equations at the head of heap_core.h, checked by walking everything. */
#include <stddef.h>

#include "heap_bins.h"
#include "heap_core.h"

#define REQUIRE(condition)               \
  do {                                   \
    if (!(condition)) return #condition; \
  } while (0)

static const char* range_fault(const HeapCore* heap, uint32_t node, int64_t expected_offset) {
  const HeapNode* range = &heap->nodes[node];
  REQUIRE(node != HEAP_ENDS && node < heap->capacity);
  REQUIRE(range->offset == expected_offset);
  REQUIRE(range->size > 0);
  REQUIRE((range->size & (heap->granule - 1)) == 0);
  REQUIRE(heap->nodes[range->after].before == node);
  REQUIRE((range->requested == HEAP_PENDING) == (heap->pending == node));
  if (range->requested == HEAP_FREE) {
    REQUIRE(range->backed >= 0 && range->backed <= range->size);
    REQUIRE(range->after != HEAP_ENDS);
    REQUIRE(heap->nodes[range->after].requested != HEAP_FREE);
  } else if (range->requested != HEAP_PENDING) {
    HeapHandle found;
    REQUIRE(range->requested >= 0 && range->requested <= range->size);
    REQUIRE(heap->buckets == NULL || (heap_find(heap, range->offset, &found) == HEAP_OK && found.node == node));
  }
  return NULL;
}

typedef struct {
  int64_t occupied, live, backed, n_live, n_free;
} HeapSums;

static const char* walk_fault(const HeapCore* heap, HeapSums* sums) {
  int64_t end = 0;
  for (uint32_t node = heap->nodes[HEAP_ENDS].after; node != HEAP_ENDS; node = heap->nodes[node].after) {
    const HeapNode* range = &heap->nodes[node];
    const char* fault = range_fault(heap, node, end);
    if (fault != NULL) return fault;
    end += range->size;
    if (range->requested >= 0) {
      sums->occupied += range->size;
      sums->live += range->requested;
      sums->n_live++;
    }
    sums->n_free += range->requested == HEAP_FREE;
    sums->backed += range->requested == HEAP_FREE ? range->backed : range->size;
  }
  REQUIRE(end == heap->top);
  return NULL;
}

static const char* lists_fault(const HeapCore* heap) {
  int64_t n_listed = 0;
  for (uint32_t ring = 0; ring < HEAP_BINS; ring++) {
    bool marked = heap->classes[ring / 64] >> (ring % 64) & 1;
    REQUIRE(marked == (heap->links[ring].next != ring));
    for (uint32_t link = heap->links[ring].next; link != ring; link = heap->links[link].next) {
      const HeapNode* range = &heap->nodes[link - HEAP_RINGS];
      REQUIRE(heap->links[heap->links[link].next].previous == link);
      REQUIRE(range->requested == HEAP_FREE);
      REQUIRE(heap_bin(heap, range->size) == ring);
      n_listed++;
    }
  }
  for (int word = 0; word < HEAP_WORDS; word++) {
    REQUIRE(heap->classes[word] == 0 || (heap->words >> word & 1));
  }
  REQUIRE(heap->classes[HEAP_WORDS - 1] == (uint64_t)1 << (HEAP_END_RING % 64));
  REQUIRE(heap->links[HEAP_END_RING].next == HEAP_RINGS + HEAP_ENDS);
  REQUIRE(heap->nodes[HEAP_ENDS].requested == HEAP_BEYOND && heap->nodes[HEAP_ENDS].size == INT64_MAX);
  REQUIRE(n_listed == heap_n_free(heap));
  return NULL;
}

const char* heap_fault(const HeapCore* heap) {
  HeapSums sums = {0};
  const char* fault = walk_fault(heap, &sums);
  if (fault == NULL) fault = lists_fault(heap);
  if (fault != NULL) return fault;
  REQUIRE(sums.occupied == heap->occupied);
  REQUIRE(sums.live == heap->live);
  REQUIRE(heap->release == NULL || sums.backed + heap->tail_backed == heap->backed);
  REQUIRE(sums.n_live == heap_n_live(heap));
  REQUIRE(sums.n_free == heap_n_free(heap));
  REQUIRE(heap->top <= heap->extent && heap->extent <= heap->limit);
  REQUIRE(heap->release == NULL || (heap->tail_backed >= 0 && heap->tail_backed <= heap->extent - heap->top));
  REQUIRE(heap->live <= heap->peak && heap->backed <= heap->peak_backed);
  return NULL;
}
