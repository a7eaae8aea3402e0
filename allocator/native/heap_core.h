/* Which ranges of a heap are free: good fit in constant time, on offsets only.
 *
 * Free ranges are kept in lists by size, 32 classes for each power of two, with a bitmap of the lists that are not
 * empty and a bitmap of its words that are not zero (Masmano et al., TLSF: a new dynamic memory allocator for
 * real-time systems, ECRTS 2004). The memory that is managed is never read or written, so it may belong to a device,
 * and a write past the end of a block cannot damage the heap. Not thread-safe: whoever owns a heap locks.
 *
 *   nodes     one per range, live or free, in a ring in address order through node 0, which stands for both ends
 *   links     two more links per node: a free range is in the ring of its bin, a scoped block in the ring of these,
 *             oldest first; the first HEAP_RINGS links are the heads of the rings
 *   spare     stack of the unused nodes
 *   buckets   live ranges by offset, chained through HeapNode.chained; only if the heap is indexed
 *
 *   occupied + sizes of the free ranges and of the pending one = top;
 *   live <= occupied, because ranges are rounded up to granules;
 *   two free ranges are never neighbours;  the range that ends at top is live or pending;
 *   backed = occupied + sum of HeapNode.backed of the free ranges + tail_backed, if the heap has a release function;
 *   live, free and pending ranges + spare nodes + 1 = capacity
 */
#ifndef ALLOCATOR_HEAP_CORE_H_
#define ALLOCATOR_HEAP_CORE_H_

#include <stdbool.h>
#include <stdint.h>

#define HEAP_WORDS 32                        /* of 64 size classes each; no size has one of the last word */
#define HEAP_BINS (HEAP_WORDS * 64 - 64)     /* size classes */
#define HEAP_END_RING (HEAP_WORDS * 64 - 1)  /* the class where every search for a larger one ends: leads to node 0 */
#define HEAP_SCOPED_RING (HEAP_END_RING - 1) /* the ring of scoped blocks */
#define HEAP_RINGS (HEAP_END_RING + 1)
#define HEAP_LARGEST ((int64_t)1 << 61) /* limit of a heap in bytes, so that sums of two sizes fit 64 bits */
#define HEAP_FREE (-1)                  /* HeapNode.requested of a range in a list, or of a spare node */
#define HEAP_PENDING (-2)               /* of the range freed last, which the next call may want back as it is */
#define HEAP_BEYOND (-3)                /* of node 0, which is neither free nor live */

enum HeapStatus {
  HEAP_OK = 0,
  HEAP_FULL = -1,        /* no free range is large enough */
  HEAP_NO_METADATA = -2, /* the system gave no memory for the tables */
  HEAP_NOT_LIVE = -3,    /* freed before, or never made by this heap */
  HEAP_PINNED = -4,      /* a block that would be rewound is in use */
  HEAP_BAD_ARGUMENT = -5 /* negative size, or alignment that is no power of two */
};

typedef struct {
  uint32_t node;
  uint32_t generation; /* of the node when the handle was made; a freed block's handle never matches again */
} HeapHandle;

typedef struct {
  int64_t offset;    /* bytes from the heap's origin */
  int64_t size;      /* bytes, a multiple of the granule */
  int64_t requested; /* bytes asked for, or HEAP_FREE, or HEAP_PENDING */
  int64_t backed;    /* free: bytes of it that may have memory behind them; live: its number in order of allocation */
  uint32_t before;   /* neighbours in address order */
  uint32_t after;
  uint32_t chained; /* next live range of the same bucket, 0 at the end */
  uint32_t generation;
  uint32_t pins; /* live: users that forbid rewinding it */
  bool scoped;   /* live: rewinding frees it */
  int64_t tag;   /* live: the owner's */
} HeapNode;

typedef struct {
  uint32_t previous;
  uint32_t next;
} HeapLink;

/* Gives the memory behind [offset, offset + size) back; returns the bytes that no longer have any. */
typedef int64_t (*HeapRelease)(void* context, int64_t offset, int64_t size);

typedef struct {
  int64_t limit;  /* bytes the heap may hand out */
  int64_t origin; /* absolute address of offset 0, for alignment */
  int64_t top;    /* nothing at or above this offset is in use */
  int64_t extent; /* largest top since the memory above top was last released */
  int64_t live;   /* bytes asked for by live blocks, and the largest this ever was */
  int64_t peak;
  int64_t occupied;      /* bytes of live ranges */
  int64_t backed;        /* bytes that may have memory behind them: live, or free and touched before */
  int64_t peak_backed;   /* the largest this ever was */
  int64_t tail_backed;   /* the part of backed that lies above top */
  int64_t budget_missed; /* releasing did not help below this many backed bytes */
  int64_t allocations;
  int64_t frees;
  int64_t releases;
  int64_t granule; /* ranges start and end on multiples of this, a power of two */
  int granule_shift;
  uint32_t lowest_bin; /* of the granule, before this is subtracted */
  int bucket_bits;

  uint64_t classes[HEAP_WORDS]; /* bit c of word w: list 64 w + c is not empty, or is the end */
  uint32_t words;               /* bit w: word w is not zero, or was not when last looked at */
  uint32_t pending;             /* node of the range freed last, not yet merged with its neighbours; 0: none */
  uint32_t n_spare;
  uint32_t capacity; /* of nodes */
  HeapNode* nodes;
  HeapLink* links; /* HEAP_RINGS heads, then one per node */
  uint32_t* spare;
  uint32_t* buckets; /* NULL: the heap is not indexed */
  HeapRelease release;
  void* release_context;
} HeapCore;

#pragma GCC visibility push(hidden) /* calls within a module, without the detour for functions of other modules */

/* All functions that return int give a HeapStatus. */

/* A heap of [0, limit). granule: a power of two; every block is at least so aligned. indexed: heap_find works. */
int heap_init(HeapCore* heap, int64_t limit, int64_t origin, int64_t granule, bool indexed);
void heap_destroy(HeapCore* heap);
/* Keep backed within 17/16 of peak, by releasing free ranges. Before the first block is made. */
void heap_set_release(HeapCore* heap, HeapRelease release, void* context);

/* A block aligned to the granule. Zero bytes give a range of one granule. On failure nothing has changed, the handle's
 * node is 0, and heap_status says why. */
HeapHandle heap_alloc(HeapCore* heap, int64_t nbytes);
HeapHandle heap_alloc_aligned(HeapCore* heap, int64_t nbytes, int64_t alignment);
static inline int heap_status(HeapHandle handle) { return handle.node != 0 ? HEAP_OK : (int)handle.generation; }
int heap_free(HeapCore* heap, HeapHandle handle);
/* Grow or shrink without moving; HEAP_FULL: what lies behind is in use or too small, and nothing has changed. */
int heap_resize(HeapCore* heap, HeapHandle handle, int64_t nbytes);

/* heap_rewind frees the blocks made since heap_mark, newest first, of those that were given to heap_scope when made. */
void heap_scope(HeapCore* heap, HeapHandle handle);
static inline int64_t heap_mark(const HeapCore* heap) { return heap->allocations; }
/* Whether nothing of that is pinned; and its youngest block, node 0 if there is none. */
int heap_can_rewind(const HeapCore* heap, int64_t mark);
HeapHandle heap_youngest_since(const HeapCore* heap, int64_t mark);
int heap_rewind(HeapCore* heap, int64_t mark, int64_t* n_freed);

/* The live block that starts at an offset: HEAP_OK or HEAP_NOT_LIVE. For indexed heaps. */
int heap_find(const HeapCore* heap, int64_t offset, HeapHandle* handle);
/* Merge the range freed last, so that top, free ranges and free bytes are what they would be without the delay. */
void heap_settle(HeapCore* heap);
/* Release the memory behind every free range and above top. */
void heap_release_all(HeapCore* heap);
int64_t heap_largest_free(const HeapCore* heap);
/* Walk everything; NULL, or which of the equations above does not hold. */
const char* heap_fault(const HeapCore* heap);

#pragma GCC visibility pop

static inline bool heap_is_live(const HeapCore* heap, HeapHandle handle) {
  return handle.node < heap->capacity && heap->nodes[handle.node].requested >= 0 &&
         heap->nodes[handle.node].generation == handle.generation;
}
/* These two, and heap_largest_free, are exact after heap_settle. */
static inline int64_t heap_free_bytes(const HeapCore* heap) { return heap->top - heap->occupied; }
static inline int64_t heap_n_live(const HeapCore* heap) { return heap->allocations - heap->frees; }
static inline int64_t heap_n_free(const HeapCore* heap) {
  return heap->capacity - 1 - heap->n_spare - heap_n_live(heap) - (heap->pending != 0);
}
static inline const HeapNode* heap_node(const HeapCore* heap, HeapHandle handle) { return &heap->nodes[handle.node]; }
static inline int64_t heap_offset(const HeapCore* heap, HeapHandle handle) { return heap->nodes[handle.node].offset; }

#endif /* ALLOCATOR_HEAP_CORE_H_ */
