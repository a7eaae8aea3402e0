/* The free lists of a heap: finding, adding and taking a range, each in constant time. */
#ifndef ALLOCATOR_HEAP_BINS_H_
#define ALLOCATOR_HEAP_BINS_H_

#include <string.h>

#include "heap_core.h"

enum { HEAP_ENDS = 0, HEAP_FIRST_NODE = 1 };
enum { HEAP_PROBES = 4 }; /* ranges of the very size class that are looked at before a larger class is opened */

/* The size class, which is also the link at the head of its list: the exponent and the five highest digits of the size
 * as a floating-point number. Rounding of sizes beyond 53 bits does no harm, because a larger size never gets a smaller
 * class. */
static inline uint32_t heap_bin(const HeapCore* heap, int64_t size) {
  double number = (double)size;
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (uint32_t)(bits >> 47) - heap->lowest_bin;
}

static inline void heap_ring_insert(HeapLink* links, uint32_t before, uint32_t link) {
  uint32_t after = links[before].next;
  links[link].previous = before;
  links[link].next = after;
  links[before].next = link;
  links[after].previous = link;
}

/* Whether only the head is left. The two halves are read one by one, because they were written so. */
static inline bool heap_ring_remove(HeapLink* links, uint32_t link) {
  uint32_t previous = links[link].previous, next = links[link].next;
  links[previous].next = next;
  links[next].previous = previous;
  return previous == next;
}

/* Release memory above top and then the largest free ranges, until at most `goal` bytes are backed. */
void heap_release_down_to(HeapCore* heap, int64_t goal);

/* Make a range free. */
static inline void heap_list(HeapCore* heap, uint32_t node) {
  uint32_t bin = heap_bin(heap, heap->nodes[node].size);
  heap->nodes[node].requested = HEAP_FREE;
  heap_ring_insert(heap->links, bin, HEAP_RINGS + node);
  heap->classes[bin / 32] |= (uint32_t)1 << (bin % 32);
  heap->powers |= (uint64_t)1 << (bin / 32);
}

/* Take a free range out of its list. The last one of a list stands between two links to the head, which is the bin. */
static inline void heap_unlist(HeapCore* heap, uint32_t node) {
  uint32_t head = heap->links[HEAP_RINGS + node].previous;
  if (!heap_ring_remove(heap->links, HEAP_RINGS + node)) return;
  heap->classes[head / 32] &= ~((uint32_t)1 << (head % 32));
}

/* A range of a larger class than those of one power. Clears the bits of powers that have none any more. */
static __attribute__((noinline)) uint32_t heap_fit_larger(HeapCore* heap, uint32_t power) {
  uint64_t powers = heap->powers & (~(uint64_t)1 << power);
  while (powers != 0) {
    power = (uint32_t)__builtin_ctzll(powers);
    uint32_t classes = heap->classes[power];
    if (classes != 0) return heap->links[power * 32 + (uint32_t)__builtin_ctz(classes)].next - HEAP_RINGS;
    powers &= powers - 1;
    heap->powers &= ~((uint64_t)1 << power);
  }
  return HEAP_ENDS;
}

/* A range for which the first one of its own class was too small: a further one of the class, or of a larger class. */
static __attribute__((noinline)) uint32_t heap_fit_further(HeapCore* heap, uint32_t bin, int64_t needed) {
  uint32_t link = heap->links[heap->links[bin].next].next;
  for (int probe = 1; link != bin && probe < HEAP_PROBES; probe++) {
    if (heap->nodes[link - HEAP_RINGS].size >= needed) return link - HEAP_RINGS;
    link = heap->links[link].next;
  }
  uint32_t power = bin / 32;
  uint32_t classes = heap->classes[power] & (uint32_t)(~(uint64_t)1 << (bin % 32));
  if (classes == 0) return heap_fit_larger(heap, power);
  return heap->links[power * 32 + (uint32_t)__builtin_ctz(classes)].next - HEAP_RINGS;
}

/* A free range of at least `needed` bytes, or HEAP_ENDS. */
static inline uint32_t heap_fit(HeapCore* heap, int64_t needed) {
  uint32_t bin = heap_bin(heap, needed), power = bin / 32;
  uint32_t classes = heap->classes[power] & (~(uint32_t)0 << (bin % 32));
  if (classes == 0) return heap_fit_larger(heap, power);
  uint32_t node = heap->links[power * 32 + (uint32_t)__builtin_ctz(classes)].next - HEAP_RINGS;
  return heap->nodes[node].size >= needed ? node : heap_fit_further(heap, bin, needed);
}

#endif  // ALLOCATOR_HEAP_BINS_H_
