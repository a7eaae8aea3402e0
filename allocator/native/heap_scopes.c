/* Freeing together what was made together. */
#include "heap_bins.h"
#include "heap_core.h"

void heap_scope(HeapCore* heap, HeapHandle handle) {
  if (!heap_is_live(heap, handle) || heap->nodes[handle.node].scoped) return;
  heap->nodes[handle.node].scoped = true;
  heap_ring_insert(heap->links, heap->links[HEAP_SCOPED_RING].previous, HEAP_RINGS + handle.node);
}

int heap_rewind(HeapCore* heap, int64_t mark, int64_t* n_freed) {
  const HeapLink* links = heap->links;
  uint32_t link = links[HEAP_SCOPED_RING].previous;
  *n_freed = 0;
  if (mark < 0 || mark > heap->allocations) return HEAP_BAD_ARGUMENT;
  for (; link != HEAP_SCOPED_RING && heap->nodes[link - HEAP_RINGS].backed >= mark; link = links[link].previous) {
    if (heap->nodes[link - HEAP_RINGS].pins > 0) return HEAP_PINNED;
  }
  for (uint32_t last = links[HEAP_SCOPED_RING].previous; last != link; last = links[HEAP_SCOPED_RING].previous) {
    heap_free(heap, (HeapHandle){last - HEAP_RINGS, heap->nodes[last - HEAP_RINGS].generation});
    ++*n_freed;
  }
  return HEAP_OK;
}
