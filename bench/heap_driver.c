/* Replays one trace of allocations on several allocators in turn, and prints nanoseconds per alloc+free pair as JSON.
 *
 *   heap_driver TRACE ROUNDS ALLOCATOR...
 *
 * TRACE holds int64 pairs (slot, bytes), bytes < 0: free the slot; it ends with everything freed. An ALLOCATOR is
 * etarena, etarena+release, etarena+find, etarena+lock, none (the loop alone), malloc, mimalloc=LIBRARY or
 * offset_allocator=LIBRARY; the libraries are those that upstream builds (github.com/microsoft/mimalloc,
 * github.com/sebbbi/OffsetAllocator). All are called through the same two function pointers. The time is the least of
 * ROUNDS, which alternate between allocators.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "heap_core.h"

enum { MOST_SLOTS = 1 << 16 };
static const int64_t CAPACITY = (int64_t)1 << 31;

typedef struct {
  int64_t slot;
  int64_t nbytes;
} Event;

typedef union {
  HeapHandle handle;
  struct {
    uint32_t offset, metadata;
  } allocation;
  void* address;
  int64_t offset;
} Slot;

typedef struct Allocator {
  const char* name;
  void (*alloc)(struct Allocator*, int64_t nbytes, Slot*);
  void (*free)(struct Allocator*, Slot*);
  int64_t (*end)(struct Allocator*, const Slot*, int64_t nbytes); /* where a block ends, -1: no offsets */
  HeapCore heap;
  char* base;
  pthread_mutex_t mutex;
  void* (*malloc_)(size_t);
  void (*free_)(void*);
  void* peer;
  uint64_t (*peer_alloc)(void*, uint32_t);
  void (*peer_free)(void*, uint64_t);
  double best;
} Allocator;

static void fail(const char* what) {
  fprintf(stderr, "heap_driver: %s\n", what);
  exit(1);
}

/* ---- etarena ---- */

static void core_alloc(Allocator* a, int64_t nbytes, Slot* slot) {
  slot->handle = heap_alloc(&a->heap, nbytes);
  if (slot->handle.node == 0) fail("etarena: full");
}
static void core_free(Allocator* a, Slot* slot) { heap_free(&a->heap, slot->handle); }
static int64_t core_end(Allocator* a, const Slot* slot, int64_t nbytes) {
  return heap_offset(&a->heap, slot->handle) + nbytes;
}

static void found_alloc(Allocator* a, int64_t nbytes, Slot* slot) {
  HeapHandle handle = heap_alloc(&a->heap, nbytes);
  if (handle.node == 0) fail("etarena: full");
  slot->offset = heap_offset(&a->heap, handle);
}
static void found_free(Allocator* a, Slot* slot) {
  HeapHandle handle;
  if (heap_find(&a->heap, slot->offset, &handle) != HEAP_OK) fail("etarena: lost");
  heap_free(&a->heap, handle);
}
static int64_t found_end(Allocator* a, const Slot* slot, int64_t nbytes) {
  (void)a;
  return slot->offset + nbytes;
}

static void locked_alloc(Allocator* a, int64_t nbytes, Slot* slot) {
  pthread_mutex_lock(&a->mutex);
  found_alloc(a, nbytes, slot);
  pthread_mutex_unlock(&a->mutex);
}
static void locked_free(Allocator* a, Slot* slot) {
  pthread_mutex_lock(&a->mutex);
  found_free(a, slot);
  pthread_mutex_unlock(&a->mutex);
}

static int64_t give_back(void* context, int64_t offset, int64_t size) {
  int64_t page = sysconf(_SC_PAGESIZE);
  int64_t start = (offset + page - 1) & -page, end = (offset + size) & -page;
  if (end <= start || madvise((char*)context + start, (size_t)(end - start), MADV_DONTNEED) != 0) return 0;
  return end - start;
}

static void open_etarena(Allocator* a, const char* variant) {
  bool indexed = strcmp(variant, "+find") == 0 || strcmp(variant, "+lock") == 0;
  if (heap_init(&a->heap, CAPACITY, 0, 64, indexed) != HEAP_OK) fail("etarena: no memory");
  a->alloc = core_alloc, a->free = core_free, a->end = core_end;
  if (indexed) a->alloc = found_alloc, a->free = found_free, a->end = found_end;
  if (strcmp(variant, "+lock") == 0) {
    pthread_mutexattr_t checking;
    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&a->mutex, &checking);
    a->alloc = locked_alloc, a->free = locked_free;
  } else if (strcmp(variant, "+release") == 0) {
    a->base = mmap(NULL, (size_t)CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->base == MAP_FAILED) fail("etarena: no address space");
    heap_set_release(&a->heap, give_back, a->base);
  } else if (variant[0] != 0 && !indexed) {
    fail("unknown variant of etarena");
  }
}

/* ---- peers ---- */

static void no_alloc(Allocator* a, int64_t nbytes, Slot* slot) {
  (void)a;
  slot->offset = nbytes;
}
static void no_free(Allocator* a, Slot* slot) { (void)a, (void)slot; }

static void malloc_alloc(Allocator* a, int64_t nbytes, Slot* slot) { slot->address = a->malloc_((size_t)nbytes); }
static void malloc_free(Allocator* a, Slot* slot) { a->free_(slot->address); }
static int64_t no_end(Allocator* a, const Slot* slot, int64_t nbytes) {
  (void)a, (void)slot, (void)nbytes;
  return -1;
}

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) fail(dlerror());
  return found;
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail(dlerror());
  return library;
}

static void open_mimalloc(Allocator* a, const char* path) {
  void* library = open_library(path);
  a->malloc_ = (void* (*)(size_t))symbol(library, "mi_malloc");
  a->free_ = (void (*)(void*))symbol(library, "mi_free");
  a->alloc = malloc_alloc, a->free = malloc_free, a->end = no_end;
}

static void peer_alloc(Allocator* a, int64_t nbytes, Slot* slot) {
  uint64_t both = a->peer_alloc(a->peer, (uint32_t)nbytes);
  memcpy(&slot->allocation, &both, sizeof both);
}
static void peer_free(Allocator* a, Slot* slot) {
  uint64_t both;
  memcpy(&both, &slot->allocation, sizeof both);
  a->peer_free(a->peer, both);
}
static int64_t peer_end(Allocator* a, const Slot* slot, int64_t nbytes) {
  (void)a;
  return (int64_t)slot->allocation.offset + nbytes;
}

/* OffsetAllocator::Allocator by its mangled names; an Allocation of two uint32 travels in one register. */
static void open_offset_allocator(Allocator* a, const char* path) {
  void* library = open_library(path);
  void (*construct)(void*, uint32_t, uint32_t) =
      (void (*)(void*, uint32_t, uint32_t))symbol(library, "_ZN15OffsetAllocator9AllocatorC1Ejj");
  a->peer_alloc = (uint64_t (*)(void*, uint32_t))symbol(library, "_ZN15OffsetAllocator9Allocator8allocateEj");
  a->peer_free = (void (*)(void*, uint64_t))symbol(library, "_ZN15OffsetAllocator9Allocator4freeENS_10AllocationE");
  a->peer = calloc(1, 1 << 16);
  construct(a->peer, (uint32_t)CAPACITY, 128 * 1024);
  a->alloc = peer_alloc, a->free = peer_free, a->end = peer_end;
}

static void open_allocator(Allocator* a, const char* name) {
  const char* path = strchr(name, '=');
  memset(a, 0, sizeof *a);
  a->name = name;
  a->best = 1e30;
  if (strncmp(name, "etarena", 7) == 0) {
    open_etarena(a, name + 7);
  } else if (strcmp(name, "none") == 0) {
    a->alloc = no_alloc, a->free = no_free, a->end = no_end;
  } else if (strcmp(name, "malloc") == 0) {
    a->malloc_ = malloc, a->free_ = free, a->alloc = malloc_alloc, a->free = malloc_free, a->end = no_end;
  } else if (path != NULL && strncmp(name, "mimalloc", 8) == 0) {
    open_mimalloc(a, path + 1);
  } else if (path != NULL && strncmp(name, "offset_allocator", 16) == 0) {
    open_offset_allocator(a, path + 1);
  } else {
    fail("unknown allocator");
  }
}

/* ---- replay ---- */

static void replay(Allocator* a, const Event* events, long n, Slot* slots) {
  for (long i = 0; i < n; i++) {
    if (events[i].nbytes >= 0) {
      a->alloc(a, events[i].nbytes, &slots[events[i].slot]);
    } else {
      a->free(a, &slots[events[i].slot]);
    }
  }
}

static int64_t extent(Allocator* a, const Event* events, long n, Slot* slots) {
  int64_t highest = -1;
  for (long i = 0; i < n; i++) {
    Slot* slot = &slots[events[i].slot];
    if (events[i].nbytes < 0) {
      a->free(a, slot);
      continue;
    }
    a->alloc(a, events[i].nbytes, slot);
    int64_t end = a->end(a, slot, events[i].nbytes);
    if (end > highest) highest = end;
  }
  return highest;
}

static int64_t peak_live(const Event* events, long n) {
  static int64_t sizes[MOST_SLOTS];
  int64_t live = 0, peak = 0;
  for (long i = 0; i < n; i++) {
    if (events[i].slot < 0 || events[i].slot >= MOST_SLOTS) fail("a slot of the trace is out of range");
    if (events[i].nbytes >= 0) sizes[events[i].slot] = events[i].nbytes;
    live += events[i].nbytes >= 0 ? events[i].nbytes : -sizes[events[i].slot];
    if (live > peak) peak = live;
  }
  return peak;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static Event* read_trace(const char* path, long* n) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) fail("cannot open the trace");
  fseek(file, 0, SEEK_END);
  *n = ftell(file) / (long)sizeof(Event);
  rewind(file);
  Event* events = malloc((size_t)(*n + 1) * sizeof *events);
  if (events == NULL || fread(events, sizeof *events, (size_t)*n, file) != (size_t)*n) fail("cannot read the trace");
  fclose(file);
  return events;
}

int main(int argc, char** argv) {
  static Slot slots[MOST_SLOTS];
  if (argc < 4) fail("usage: heap_driver TRACE ROUNDS ALLOCATOR...");
  long n;
  Event* events = read_trace(argv[1], &n);
  int rounds = atoi(argv[2]), n_allocators = argc - 3;
  Allocator* allocators = calloc((size_t)n_allocators, sizeof *allocators);
  int64_t live = peak_live(events, n);
  long repeats = 1 + 20000 / (n + 1);
  for (int i = 0; i < n_allocators; i++) open_allocator(&allocators[i], argv[3 + i]);
  for (int round = 0; round < rounds * n_allocators; round++) {
    Allocator* a = &allocators[round % n_allocators];
    double start = seconds();
    for (long repeat = 0; repeat < repeats; repeat++) replay(a, events, n, slots);
    double each = (seconds() - start) * 1e9 / (double)repeats / ((double)n / 2);
    if (each < a->best) a->best = each;
  }
  printf("{\"pairs\": %ld, \"peak_live\": %lld, \"allocators\": {", n / 2, (long long)live);
  for (int i = 0; i < n_allocators; i++) {
    Allocator* a = &allocators[i];
    long long highest = (long long)extent(a, events, n, slots);
    printf("%s\"%.*s\": {\"ns\": %.2f, \"extent\": %lld, \"backed\": %lld, \"releases\": %lld}", i > 0 ? ", " : "",
           (int)strcspn(a->name, "="), a->name, a->best, highest, (long long)a->heap.peak_backed,
           (long long)a->heap.releases);
  }
  printf("}}\n");
  return 0;
}
