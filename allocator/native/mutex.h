// POSIX mutexes that report when the thread that asks already holds them, and that are in order after a fork.
//
// A child gets a copy of the memory, but of no thread that might hold a mutex. Whoever holds one that guards memory
// keeps the process from being copied meanwhile, so that the copy is whole. The system's own handlers see to it: those
// of Python run Python code while others hold the GIL and wait for what was locked.
#ifndef ETARENA_MUTEX_H
#define ETARENA_MUTEX_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct Mutex {
  pthread_mutex_t mutex;  // first: the functions below take it for the whole
  struct Mutex *before, *after;
  int guards_memory, held_for_fork;
} Mutex;

// All of one module.
typedef struct {
  pthread_mutex_t mutex;
  Mutex* first;
  int watched;
} MutexList;

static inline MutexList* mutex_list(void) {
  static MutexList list = {PTHREAD_MUTEX_INITIALIZER, NULL, 0};
  return &list;
}

static inline void mutex_start(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static inline void mutexes_before_fork(void) {
  MutexList* list = mutex_list();
  pthread_mutex_lock(&list->mutex);
  for (Mutex* one = list->first; one != NULL; one = one->after)
    one->held_for_fork = one->guards_memory && pthread_mutex_lock(&one->mutex) == 0;
}

static inline void mutexes_in_parent(void) {
  MutexList* list = mutex_list();
  for (Mutex* one = list->first; one != NULL; one = one->after)
    if (one->held_for_fork) pthread_mutex_unlock(&one->mutex);
  pthread_mutex_unlock(&list->mutex);
}

// Only the thread that forks lives on, under a new identity: what was locked by any thread is void.
static inline void mutexes_in_child(void) {
  MutexList* list = mutex_list();
  for (Mutex* one = list->first; one != NULL; one = one->after) mutex_start(&one->mutex);
  pthread_mutex_init(&list->mutex, NULL);
}

// With `guards_memory`, it is only held for moments, and by nobody who waits for anything: a fork waits for it.
static inline void* mutex_new(int guards_memory) {
  MutexList* list = mutex_list();
  Mutex* made = (Mutex*)malloc(sizeof(Mutex));
  int status = 0;
  if (made == NULL) return NULL;
  mutex_start(&made->mutex);
  made->guards_memory = guards_memory;
  made->held_for_fork = 0;
  made->before = NULL;
  pthread_mutex_lock(&list->mutex);
  if (!list->watched) status = pthread_atfork(mutexes_before_fork, mutexes_in_parent, mutexes_in_child);
  if (status == 0) {
    list->watched = 1;
    made->after = list->first;
    if (made->after != NULL) made->after->before = made;
    list->first = made;
  }
  pthread_mutex_unlock(&list->mutex);
  if (status == 0) return made;
  pthread_mutex_destroy(&made->mutex);
  free(made);
  return NULL;
}

static inline void mutex_delete(void* mutex) {
  MutexList* list = mutex_list();
  Mutex* one = (Mutex*)mutex;
  if (one == NULL) return;
  pthread_mutex_lock(&list->mutex);
  if (one->before != NULL)
    one->before->after = one->after;
  else
    list->first = one->after;
  if (one->after != NULL) one->after->before = one->before;
  pthread_mutex_unlock(&list->mutex);
  pthread_mutex_destroy(&one->mutex);
  free(one);
}

static inline int mutex_lock(void* mutex) { return pthread_mutex_lock((pthread_mutex_t*)mutex); }
static inline int mutex_trylock(void* mutex) { return pthread_mutex_trylock((pthread_mutex_t*)mutex); }
static inline int mutex_unlock(void* mutex) { return pthread_mutex_unlock((pthread_mutex_t*)mutex); }

#endif
