"""POSIX mutexes that report when the thread that asks already holds them."""

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdlib.h>

    static inline void *mutex_new(void) {
        pthread_mutexattr_t attributes;
        pthread_mutex_t *mutex = (pthread_mutex_t *)malloc(sizeof(pthread_mutex_t));
        if (mutex == NULL) return NULL;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
        pthread_mutex_init(mutex, &attributes);
        pthread_mutexattr_destroy(&attributes);
        return mutex;
    }
    static inline void mutex_delete(void *mutex) {
        if (mutex != NULL) { pthread_mutex_destroy((pthread_mutex_t *)mutex); free(mutex); }
    }
    static inline int mutex_lock(void *mutex) { return pthread_mutex_lock((pthread_mutex_t *)mutex); }
    static inline int mutex_trylock(void *mutex) { return pthread_mutex_trylock((pthread_mutex_t *)mutex); }
    static inline int mutex_unlock(void *mutex) { return pthread_mutex_unlock((pthread_mutex_t *)mutex); }
    """
    void* mutex_new() noexcept
    void mutex_delete(void* mutex) noexcept
    int mutex_lock(void* mutex) noexcept         # 0, or EDEADLK: this thread holds it already
    int mutex_trylock(void* mutex) noexcept      # 0, or EBUSY
    int mutex_unlock(void* mutex) noexcept       # 0, or EPERM: this thread does not hold it
