/* Random use of a heap by several threads under one lock, with everything checked as it goes; for sanitizer builds.
 *
 *   heap_stress STEPS THREADS
 *
 * Each block is filled with a byte of its own, so overlaps show. Blocks are freed by whichever thread picks them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap_core.h"

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "heap_stress:%d: not so: %s\n", __LINE__, #condition); \
      abort();                                                               \
    }                                                                        \
  } while (0)

enum { SLOTS = 128, CAPACITY = 4 << 20, PAGE = 4096 };

typedef struct {
  HeapHandle handle;
  int64_t nbytes;
  unsigned char byte;
} Held;

static HeapCore heap;
static unsigned char* memory;
static Held held[SLOTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int n_steps;

static uint64_t next_number(uint64_t* state) { /* xorshift64: Marsaglia, Xorshift RNGs, 2003 */
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static int64_t give_back(void* context, int64_t offset, int64_t size) {
  int64_t start = (offset + PAGE - 1) & -PAGE, end = (offset + size) & -PAGE;
  if (end <= start) return 0;
  CHECK(madvise((char*)context + start, (size_t)(end - start), MADV_DONTNEED) == 0);
  return end - start;
}

static void fill(const Held* block) {
  memset(memory + heap_offset(&heap, block->handle), block->byte, (size_t)block->nbytes);
}

static void check_content(const Held* block, int64_t nbytes) {
  const unsigned char* bytes = memory + heap_offset(&heap, block->handle);
  for (int64_t i = 0; i < nbytes; i++) CHECK(bytes[i] == block->byte);
}

static void make(Held* block, uint64_t number) {
  int64_t nbytes = (int64_t)(number >> 20) % ((int64_t)1 << (number % 17)),
          alignment = (int64_t)1 << (number >> 8) % 14;
  HeapHandle handle = heap_alloc_aligned(&heap, nbytes, alignment);
  if (handle.node == 0) {
    CHECK(heap_status(handle) == HEAP_FULL);
    return;
  }
  CHECK((heap.origin + heap_offset(&heap, handle)) % alignment == 0);
  CHECK(heap_offset(&heap, handle) + nbytes <= CAPACITY);
  *block = (Held){handle, nbytes, (unsigned char)(number >> 56 | 1)};
  if (number >> 50 & 1) heap_scope(&heap, handle);
  fill(block);
}

static void drop(Held* block) {
  HeapHandle found;
  check_content(block, block->nbytes);
  CHECK(heap_find(&heap, heap_offset(&heap, block->handle), &found) == HEAP_OK);
  CHECK(found.node == block->handle.node && found.generation == block->handle.generation);
  CHECK(heap_free(&heap, block->handle) == HEAP_OK);
  CHECK(heap_free(&heap, block->handle) == HEAP_NOT_LIVE);
  block->handle.node = 0;
}

static void resize(Held* block, uint64_t number) {
  int64_t nbytes = (int64_t)(number >> 20 & 0xFFFF), kept = nbytes < block->nbytes ? nbytes : block->nbytes;
  int status = heap_resize(&heap, block->handle, nbytes);
  CHECK(status == HEAP_OK || status == HEAP_FULL);
  if (status != HEAP_OK) return;
  check_content(block, kept);
  block->nbytes = nbytes;
  fill(block);
}

static void rewind_some(void) {
  int64_t n_freed, mark = heap_mark(&heap) - 20;
  CHECK(heap_rewind(&heap, mark < 0 ? 0 : mark, &n_freed) == HEAP_OK);
  for (int i = 0; i < SLOTS; i++) {
    if (held[i].handle.node != 0 && !heap_is_live(&heap, held[i].handle)) held[i].handle.node = 0, n_freed--;
  }
  CHECK(n_freed == 0);
}

static void* work(void* seed) {
  uint64_t state = (uint64_t)(uintptr_t)seed * 0x9E3779B97F4A7C15u;
  for (int step = 0; step < n_steps; step++) {
    uint64_t number = next_number(&state);
    Held* block = &held[number >> 32 & (SLOTS - 1)];
    pthread_mutex_lock(&mutex);
    if (block->handle.node == 0) {
      make(block, next_number(&state));
    } else if (number % 4 == 0) {
      resize(block, next_number(&state));
    } else {
      drop(block);
    }
    if (number % 997 == 0) heap_release_all(&heap);
    if (number % 499 == 0) rewind_some();
    const char* fault = heap_fault(&heap);
    if (fault != NULL) fprintf(stderr, "heap_stress: broken: %s\n", fault);
    CHECK(fault == NULL);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

/* Sizes, alignments and handles at the ends of what a heap takes. */
static void check_extremes(void) {
  HeapCore wide;
  CHECK(heap_init(&wide, HEAP_LARGEST, 0, 1, true) == HEAP_OK);
  HeapHandle small = heap_alloc(&wide, 1), half = heap_alloc_aligned(&wide, HEAP_LARGEST / 2, HEAP_LARGEST / 2);
  CHECK(heap_offset(&wide, small) == 0 && heap_offset(&wide, half) == HEAP_LARGEST / 2);
  CHECK(heap_status(heap_alloc_aligned(&wide, HEAP_LARGEST, HEAP_LARGEST)) == HEAP_FULL);
  CHECK(heap_status(heap_alloc(&wide, HEAP_LARGEST / 2)) == HEAP_FULL && heap_fault(&wide) == NULL);
  for (uint32_t generation = 0; generation < 4; generation++) {
    CHECK(heap_free(&wide, (HeapHandle){0, generation}) == HEAP_NOT_LIVE);
    CHECK(heap_free(&wide, (HeapHandle){wide.capacity, generation}) == HEAP_NOT_LIVE);
  }
  CHECK(heap_free(&wide, heap_alloc(&wide, -1)) == HEAP_NOT_LIVE);
  CHECK(heap_free(&wide, small) == HEAP_OK && heap_free(&wide, half) == HEAP_OK);
  HeapHandle all = heap_alloc(&wide, HEAP_LARGEST);
  CHECK(heap_status(all) == HEAP_OK && heap_fault(&wide) == NULL && heap_free(&wide, all) == HEAP_OK);
  heap_destroy(&wide);
}

int main(int argc, char** argv) {
  pthread_t threads[16];
  CHECK(argc == 3);
  n_steps = atoi(argv[1]);
  int n_threads = atoi(argv[2]);
  CHECK(n_threads > 0 && n_threads <= 16);
  check_extremes();
  memory = mmap(NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  CHECK(heap_init(&heap, CAPACITY, (int64_t)(uintptr_t)memory, 64, true) == HEAP_OK);
  heap_set_release(&heap, give_back, memory);
  for (int i = 0; i < n_threads; i++) CHECK(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i + 1)) == 0);
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < SLOTS; i++) {
    if (held[i].handle.node != 0) drop(&held[i]);
  }
  heap_settle(&heap);
  CHECK(heap_fault(&heap) == NULL && heap.top == 0 && heap_n_free(&heap) == 0 && heap.occupied == 0 && heap.live == 0);
  heap_release_all(&heap);
  CHECK(heap.backed == 0);
  printf("heap_stress: %lld allocations, %lld releases, all freed\n", (long long)heap.allocations,
         (long long)heap.releases);
  heap_destroy(&heap);
  munmap(memory, CAPACITY);
  return 0;
}
