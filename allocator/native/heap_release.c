/* The memory behind free ranges, for heaps whose owner can give it back to the system. */
#include "heap_bins.h"
#include "heap_core.h"

enum { LARGEST_PAGE = 1 << 16 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void heap_set_release(HeapCore* heap, HeapRelease release, void* context) {
  heap->release = release;
  heap->release_context = context;
}

static void release_tail(HeapCore* heap) {
  if (heap->tail_backed == 0) return;
  int64_t end =
      smaller(heap->limit, (heap->extent + LARGEST_PAGE - 1) & -LARGEST_PAGE); /* nothing behind extent is in use */
  int64_t released = heap->release(heap->release_context, heap->top, end - heap->top);
  int64_t left = larger(0, heap->extent - heap->top - released);
  heap->releases++;
  heap->backed -= heap->tail_backed - smaller(heap->tail_backed, left);
  heap->tail_backed = smaller(heap->tail_backed, left);
  heap->extent = heap->top + left;
}

static void release_range(HeapCore* heap, HeapNode* node) {
  if (node->backed == 0) return;
  int64_t left = smaller(node->backed, node->size - heap->release(heap->release_context, node->offset, node->size));
  heap->releases += left < node->backed;
  heap->backed -= node->backed - left;
  node->backed = left;
}

void heap_release_down_to(HeapCore* heap, int64_t goal) {
  if (heap->backed > goal) release_tail(heap);
  for (uint32_t ring = HEAP_BINS; ring-- > 0 && heap->backed > goal;) {
    if ((ring & 63) == 63 && heap->classes[ring >> 6] == 0) {
      ring -= 63;
      continue;
    }
    for (uint32_t link = heap->links[ring].next; link != ring && heap->backed > goal; link = heap->links[link].next) {
      release_range(heap, &heap->nodes[link - HEAP_RINGS]);
    }
  }
}

void heap_release_all(HeapCore* heap) {
  heap_settle(heap);
  if (heap->release != NULL) heap_release_down_to(heap, 0);
}
