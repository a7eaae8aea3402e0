// Exact search for offsets within a given capacity; see exact_search.c for how it works.
#ifndef ETARENA_ALLOCATOR_EXACT_H_
#define ETARENA_ALLOCATOR_EXACT_H_

#include <stdint.h>

typedef struct exact_search exact_search;

typedef enum {
  EXACT_FOUND = 1,       // offsets are written
  EXACT_INFEASIBLE = 0,  // proof that no offsets fit the capacity
  EXACT_STOPPED = -1,    // out of nodes or time, or cancelled
  EXACT_NO_MEMORY = -2,
} exact_status;

// A buffer is live during one or more pieces of time [first, last), has size > 0 bytes, an offset that is a multiple of
// step (a power of two) and, if pin >= 0, that very offset. Piece p belongs to buffer owner[p]. The sum of all sizes
// and steps must stay below 2**61. NULL if there is no memory, or if the problem is too large to search (more than four
// million pairs of a buffer and a moment at which it is live).
exact_search* exact_new(int n, const int64_t* sizes, const int64_t* steps, const int64_t* pins, int n_pieces,
                        const int32_t* owner, const int32_t* first, const int32_t* last);
void exact_free(exact_search* search);

// Nodes visited by the last call.
int64_t exact_nodes(const exact_search* search);

// Looks for offsets with offset + size <= capacity. Deterministic for a given node limit; deadline is a time of
// exact_clock() in ns, and cancel (may be NULL) ends the search once another thread has called exact_cancel with it.
exact_status exact_solve(exact_search* search, int64_t capacity, int64_t max_nodes, int64_t deadline, const int* cancel,
                         int64_t* offsets);

// Lowers *peak, the peak of a known solution, as far as nodes and time allow, and not below `bound`: looks within the
// bound first, then halves the distance. When it finds something better it writes offsets and gives EXACT_FOUND; when
// it proves that there is nothing better, EXACT_INFEASIBLE.
exact_status exact_improve(exact_search* search, int64_t bound, int64_t* peak, int64_t max_nodes, int64_t deadline,
                           const int* cancel, int64_t* offsets);

// First fit: gives the buffers of an order, all of them, the lowest offset that is free for their whole lifetime,
// pinned ones before the others. Gives the peak.
int64_t exact_first_fit(exact_search* search, const int32_t* order, int64_t* offsets);

// End all searches, of any thread, that were given this flag, which was 0 before.
static inline void exact_cancel(int* cancel) { __atomic_store_n(cancel, 1, __ATOMIC_RELAXED); }

// Monotonic time in ns.
int64_t exact_clock(void);

#endif  // ETARENA_ALLOCATOR_EXACT_H_
