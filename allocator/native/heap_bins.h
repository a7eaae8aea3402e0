/* The free lists of a heap: finding, adding and taking a range, each in constant time. */
#ifndef ALLOCATOR_HEAP_BINS_H_
#define ALLOCATOR_HEAP_BINS_H_

#include <string.h>

#include "heap_core.h"

#define COLD __attribute__((noinline, cold))
#define NOINLINE __attribute__((noinline)) /* keeps what is rare, and the registers it needs, out of what is not */
#define INLINE inline __attribute__((always_inline))
#define UNLIKELY(condition) __builtin_expect(condition, 0)

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
  links[before].next = link;
  links[after].previous = link;
  links[link].next = after;
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

/* Make a range of that size free. */
static inline void heap_list(HeapCore* heap, uint32_t node, int64_t size) {
  uint32_t bin = heap_bin(heap, size);
  heap->nodes[node].requested = HEAP_FREE;
  heap_ring_insert(heap->links, bin, HEAP_RINGS + node);
  heap->classes[bin / 64] |= (uint64_t)1 << (bin % 64);
  heap->words |= (uint32_t)1 << (bin / 64);
}

/* Take a free range out of its list. The last one of a list stands between two links to the head, which is the bin. No
 * branch, because it would often be guessed wrong: if it is not the last, no bit is cleared, whatever `head` is. */
static inline void heap_unlist(HeapCore* heap, uint32_t node) {
  uint32_t head = heap->links[HEAP_RINGS + node].previous;
  uint64_t last = heap_ring_remove(heap->links, HEAP_RINGS + node);
  heap->classes[head / 64 % HEAP_WORDS] &= ~(last << (head % 64));
}

/* The smallest class from `bin` on that has a range, or HEAP_END_RING. Finds out which words have become zero. */
static inline uint32_t heap_class_from(HeapCore* heap, uint32_t bin) {
  uint32_t word = bin / 64, words = heap->words & (~(uint32_t)1 << word);
  uint64_t classes = heap->classes[word] & (~(uint64_t)0 << (bin % 64));
  if (classes == 0) {
    classes = heap->classes[word = (uint32_t)__builtin_ctz(words)];
    while (UNLIKELY(classes == 0)) {
      heap->words &= ~((uint32_t)1 << word);
      words &= words - 1;
      classes = heap->classes[word = (uint32_t)__builtin_ctz(words)];
    }
  }
  return word * 64 + (uint32_t)__builtin_ctzll(classes);
}

/* The first range of such a class, or HEAP_ENDS. */
static inline uint32_t heap_first_from(HeapCore* heap, uint32_t bin) {
  return heap->links[heap_class_from(heap, bin)].next - HEAP_RINGS;
}

/* A range for which the first one of its own class was too small: a further one of the class, or of a larger class. */
static NOINLINE uint32_t heap_fit_further(HeapCore* heap, uint32_t bin, int64_t needed) {
  uint32_t link = heap->links[heap->links[bin].next].next;
  for (int probe = 1; link != bin && probe < HEAP_PROBES; probe++) {
    if (heap->nodes[link - HEAP_RINGS].size >= needed) return link - HEAP_RINGS;
    link = heap->links[link].next;
  }
  return heap_first_from(heap, bin + 1);
}

/* A free range of at least `needed` bytes, or HEAP_ENDS. */
static inline uint32_t heap_fit(HeapCore* heap, int64_t needed) {
  uint32_t bin = heap_bin(heap, needed), node = heap_first_from(heap, bin);
  return heap->nodes[node].size >= needed ? node : heap_fit_further(heap, bin, needed);
}

static NOINLINE uint32_t heap_take_further(HeapCore* heap, uint32_t bin, int64_t needed) {
  uint32_t node = heap_fit_further(heap, bin, needed);
  if (node != HEAP_ENDS) heap_unlist(heap, node);
  return node;
}

/* heap_fit and heap_unlist in one, which is less work for the first range of a list. */
static inline uint32_t heap_take(HeapCore* heap, int64_t needed) {
  uint32_t bin = heap_bin(heap, needed), head = heap_class_from(heap, bin), link = heap->links[head].next;
  if (heap->nodes[link - HEAP_RINGS].size < needed) return heap_take_further(heap, bin, needed);
  if (head == HEAP_END_RING) return HEAP_ENDS;
  uint32_t next = heap->links[link].next;
  heap->links[head].next = next;
  heap->links[next].previous = head;
  heap->classes[head / 64] &= ~((uint64_t)(next == head) << (head % 64));
  return link - HEAP_RINGS;
}

#endif  // ALLOCATOR_HEAP_BINS_H_
