/* Random small problems for the exact search, from several threads at once, each answer checked by a naive one; for
 * sanitizer builds.
 *
 *   exact_stress STEPS THREADS
 *
 * What fits is told by trying all orders: placing buffers by their offsets in some solution, each as low as it goes,
 * gives a solution that is nowhere higher. Now and then a problem too hard to finish is cancelled from another thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exact.h"

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "exact_stress:%d: not so: %s\n", __LINE__, #condition); \
      abort();                                                                \
    }                                                                         \
  } while (0)

enum { MOST_SMALL = 6, MOST = 200, MOST_PIECES = 3 * MOST, CANCEL_EVERY = 100 };
static const int64_t NO_LIMIT = (int64_t)1 << 62;

typedef struct {
  int n, n_pieces;
  int64_t sizes[MOST], steps[MOST], pins[MOST];
  int32_t owner[MOST_PIECES], first[MOST_PIECES], last[MOST_PIECES];
} Problem;

typedef struct {
  uint64_t random;
  int64_t counts[4]; /* of answers: found, proved that there is none, stopped, cancelled */
} Worker;

static int n_steps;

static uint64_t next_number(Worker* self) { /* xorshift64: Marsaglia, Xorshift RNGs, 2003 */
  self->random ^= self->random << 13;
  self->random ^= self->random >> 7;
  return self->random ^= self->random << 17;
}

static int64_t below(Worker* self, int64_t limit) { return (int64_t)(next_number(self) >> 8) % limit; }

/* ---- the naive answer ---- */

static bool meet(const Problem* p, int a, int b) { /* in time */
  for (int i = 0; i < p->n_pieces; i++) {
    for (int j = 0; p->owner[i] == a && j < p->n_pieces; j++) {
      if (p->owner[j] == b && p->first[i] < p->last[j] && p->first[j] < p->last[i]) return true;
    }
  }
  return false;
}

static bool overlap(const Problem* p, const int64_t* offsets, int a, int b) {
  return offsets[a] < offsets[b] + p->sizes[b] && offsets[b] < offsets[a] + p->sizes[a] && meet(p, a, b);
}

static bool is_solution(const Problem* p, const int64_t* offsets, int64_t capacity) {
  for (int i = 0; i < p->n; i++) {
    if (offsets[i] < 0 || offsets[i] % p->steps[i] != 0 || offsets[i] + p->sizes[i] > capacity) return false;
    if (p->pins[i] >= 0 && offsets[i] != p->pins[i]) return false;
    for (int j = 0; j < i; j++) {
      if (overlap(p, offsets, i, j)) return false;
    }
  }
  return true;
}

/* Places a buffer as low as it goes beside those that have an offset, -1 being none. */
static void place(const Problem* p, int64_t* offsets, int i) {
  offsets[i] = 0;
  for (int j = 0; j < p->n; j++) {
    if (j == i || offsets[j] < 0 || !overlap(p, offsets, i, j)) continue;
    int64_t above = offsets[j] + p->sizes[j] + p->steps[i] - 1;
    offsets[i] = above - above % p->steps[i];
    j = -1;
  }
}

static int64_t peak_of(const Problem* p, const int64_t* offsets) {
  int64_t peak = 0;
  for (int i = 0; i < p->n; i++) {
    if (offsets[i] + p->sizes[i] > peak) peak = offsets[i] + p->sizes[i];
  }
  return peak;
}

/* The lowest peak of all orders of those that have no offset yet; NO_LIMIT if pins collide. */
static int64_t lowest_peak(const Problem* p, int64_t* offsets) {
  int64_t lowest = NO_LIMIT;
  bool complete = true;
  for (int i = 0; i < p->n; i++) {
    if (offsets[i] >= 0) continue;
    complete = false;
    place(p, offsets, i);
    int64_t peak = lowest_peak(p, offsets);
    if (peak < lowest) lowest = peak;
    offsets[i] = -1;
  }
  if (!complete) return lowest;
  return is_solution(p, offsets, NO_LIMIT) ? peak_of(p, offsets) : NO_LIMIT;
}

/* ---- problems ---- */

/* Sizes up to 2**50 bytes; a buffer of several pieces stands for a group, whose members may overlap in time. */
static void make(Worker* self, Problem* p, int most, int longest) {
  int64_t unit = (int64_t)1 << (next_number(self) % 3 == 0 ? 46 : next_number(self) % 12);
  p->n = (int)below(self, most + 1);
  p->n_pieces = 0;
  for (int i = 0; i < p->n; i++) {
    p->sizes[i] = 1 + below(self, 16) * unit;
    p->steps[i] = (int64_t)1 << below(self, 13);
    p->pins[i] = -1;
    for (int64_t pieces = below(self, 4) == 0 ? 3 : 1; pieces > 0; pieces--) {
      int64_t first = below(self, longest);
      p->owner[p->n_pieces] = i;
      p->first[p->n_pieces] = (int32_t)first;
      p->last[p->n_pieces++] = (int32_t)(first + 1 + below(self, longest / 3 + 1));
    }
  }
}

/* Pins some buffers where some solution has them, or anywhere, so that pins may collide. */
static void pin_some(Worker* self, Problem* p, bool anywhere) {
  int64_t offsets[MOST];
  for (int i = 0; i < p->n; i++) offsets[i] = -1;
  for (int i = 0; i < p->n; i++) place(p, offsets, i);
  for (int i = 0; i < p->n; i++) {
    int64_t pin = anywhere ? below(self, 4) * p->sizes[i] / p->steps[i] * p->steps[i] : offsets[i];
    if (below(self, 3) == 0) p->pins[i] = pin;
  }
}

static exact_search* open_search(const Problem* p) {
  exact_search* search = exact_new(p->n, p->sizes, p->steps, p->pins, p->n_pieces, p->owner, p->first, p->last);
  CHECK(search != NULL);
  return search;
}

/* ---- checks ---- */

static void check_first_fit(Worker* self, const Problem* p, exact_search* search) {
  int32_t order[MOST];
  int64_t offsets[MOST], expected[MOST];
  for (int i = 0; i < p->n; i++) {
    int j = (int)below(self, i + 1);
    order[i] = order[j];
    order[j] = i;
    expected[i] = p->pins[i];
  }
  for (int i = 0; i < p->n; i++) {
    if (p->pins[order[i]] < 0) place(p, expected, order[i]);
  }
  CHECK(exact_first_fit(search, order, offsets) == peak_of(p, offsets));
  CHECK(memcmp(offsets, expected, (size_t)p->n * sizeof *offsets) == 0);
}

static void check_solve(Worker* self, const Problem* p, exact_search* search, int64_t capacity, int64_t lowest,
                        int64_t nodes) {
  int64_t offsets[MOST];
  exact_status status = exact_solve(search, capacity, nodes, NO_LIMIT, NULL, offsets);
  CHECK(status == EXACT_FOUND || status == EXACT_INFEASIBLE || status == EXACT_STOPPED);
  if (nodes == NO_LIMIT) CHECK(status == (lowest <= capacity ? EXACT_FOUND : EXACT_INFEASIBLE));
  if (status == EXACT_FOUND) CHECK(is_solution(p, offsets, capacity));
  if (status == EXACT_INFEASIBLE) CHECK(lowest > capacity);
  CHECK(exact_nodes(search) <= nodes + 1); /* the last one is counted but not visited */
  self->counts[status == EXACT_FOUND ? 0 : status == EXACT_INFEASIBLE ? 1 : 2]++;
}

static void check_improve(const Problem* p, exact_search* search, int64_t known, int64_t lowest) {
  int64_t offsets[MOST], peak = known;
  exact_status status = exact_improve(search, 0, &peak, NO_LIMIT, NO_LIMIT, NULL, offsets);
  CHECK(peak == lowest);
  CHECK(status == (lowest < known ? EXACT_FOUND : EXACT_INFEASIBLE));
  if (status == EXACT_FOUND) CHECK(is_solution(p, offsets, peak) && peak_of(p, offsets) == peak);
}

static void try_small(Worker* self) {
  Problem p;
  int64_t offsets[MOST], kind = below(self, 4);
  make(self, &p, MOST_SMALL, 9);
  if (kind < 2) pin_some(self, &p, kind == 0);
  memcpy(offsets, p.pins, sizeof offsets);
  int64_t lowest = lowest_peak(&p, offsets);
  exact_search* search = open_search(&p);
  if (lowest < NO_LIMIT) {
    check_first_fit(self, &p, search);
    check_solve(self, &p, search, lowest, lowest, NO_LIMIT);
    if (p.n > 0) check_solve(self, &p, search, lowest - 1, lowest, NO_LIMIT);
    check_improve(&p, search, lowest + below(self, lowest + 1), lowest);
  }
  check_solve(self, &p, search, below(self, (int64_t)1 << below(self, 52)), lowest, NO_LIMIT);
  check_solve(self, &p, search, below(self, 1000), lowest, below(self, 20));
  exact_free(search);
}

/* ---- cancellation ---- */

typedef struct {
  int flag;
  useconds_t delay;
} Cancel;

static void* cancel_later(void* argument) {
  Cancel* cancel = argument;
  usleep(cancel->delay);
  exact_cancel(&cancel->flag);
  return NULL;
}

static void try_cancel(Worker* self) {
  Problem p;
  Cancel cancel = {0, (useconds_t)below(self, 2000)};
  pthread_t thread;
  int64_t offsets[MOST] = {0}, before[MOST], peak;
  make(self, &p, MOST, 60);
  exact_search* search = open_search(&p);
  int32_t order[MOST];
  for (int i = 0; i < p.n; i++) order[i] = i;
  peak = exact_first_fit(search, order, offsets);
  CHECK(is_solution(&p, offsets, peak));
  memcpy(before, offsets, sizeof before);
  CHECK(pthread_create(&thread, NULL, cancel_later, &cancel) == 0);
  int64_t known = peak;
  exact_status status = exact_improve(search, 0, &peak, NO_LIMIT, NO_LIMIT, &cancel.flag, offsets);
  CHECK(pthread_join(thread, NULL) == 0);
  if (status == EXACT_FOUND) CHECK(peak < known && is_solution(&p, offsets, peak));
  if (status != EXACT_FOUND) CHECK(peak == known && memcmp(offsets, before, sizeof before) == 0);
  CHECK(p.n == 0 || exact_solve(search, peak, NO_LIMIT, NO_LIMIT, &cancel.flag, offsets) == EXACT_STOPPED);
  status = exact_solve(search, 2 * known, 4 * (p.n + 1), NO_LIMIT, NULL, offsets); /* the object still works */
  CHECK(status == EXACT_FOUND || status == EXACT_STOPPED);
  if (status == EXACT_FOUND) CHECK(is_solution(&p, offsets, 2 * known));
  self->counts[3]++;
  exact_free(search);
}

static void* work(void* argument) {
  Worker* self = argument;
  for (int step = 0; step < n_steps; step++) {
    try_small(self);
    if (step % CANCEL_EVERY == 0) try_cancel(self);
  }
  return NULL;
}

int main(int argc, char** argv) {
  Worker workers[16] = {{0}};
  pthread_t threads[16];
  int64_t sums[4] = {0};
  CHECK(argc == 3);
  n_steps = atoi(argv[1]);
  int n_threads = atoi(argv[2]);
  CHECK(n_threads > 0 && n_threads <= 16);
  for (int i = 0; i < n_threads; i++) {
    workers[i].random = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < n_threads; i++) {
    pthread_join(threads[i], NULL);
    for (int k = 0; k < 4; k++) sums[k] += workers[i].counts[k];
  }
  CHECK(n_steps == 0 || (sums[0] > 0 && sums[1] > 0 && sums[3] > 0));
  printf("exact_stress: %lld found, %lld without solution, %lld stopped, %lld cancelled\n", (long long)sums[0],
         (long long)sums[1], (long long)sums[2], (long long)sums[3]);
  return 0;
}
