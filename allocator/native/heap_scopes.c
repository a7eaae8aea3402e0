/* Freeing together what was made together. */
#include "heap_bins.h"
#include "heap_core.h"

void heap_scope(HeapCore* heap, HeapHandle handle) {
  if (!heap_is_live(heap, handle) || heap->nodes[handle.node].scoped) return;
  heap->nodes[handle.node].scoped = true;
  heap_ring_insert(heap->links, heap->links[HEAP_SCOPED_RING].previous, HEAP_RINGS + handle.node);
}

HeapHandle heap_youngest_since(const HeapCore* heap, int64_t mark) {
  uint32_t link = heap->links[HEAP_SCOPED_RING].previous;
  if (link == HEAP_SCOPED_RING || heap->nodes[link - HEAP_RINGS].backed < mark) return (HeapHandle){0, 0};
  return (HeapHandle){link - HEAP_RINGS, heap->nodes[link - HEAP_RINGS].generation};
}

int heap_can_rewind(const HeapCore* heap, int64_t mark) {
  const HeapLink* links = heap->links;
  if (mark < 0 || mark > heap->allocations) return HEAP_BAD_ARGUMENT;
  for (uint32_t link = links[HEAP_SCOPED_RING].previous; link != HEAP_SCOPED_RING; link = links[link].previous) {
    if (heap->nodes[link - HEAP_RINGS].backed < mark) break;
    if (heap->nodes[link - HEAP_RINGS].pins > 0) return HEAP_PINNED;
  }
  return HEAP_OK;
}

int heap_rewind(HeapCore* heap, int64_t mark, int64_t* n_freed) {
  int status = heap_can_rewind(heap, mark);
  *n_freed = 0;
  if (status != HEAP_OK) return status;
  for (HeapHandle last = heap_youngest_since(heap, mark); last.node != 0; last = heap_youngest_since(heap, mark)) {
    heap_free(heap, last);
    ++*n_freed;
  }
  return HEAP_OK;
}
