"""POSIX mutexes that report when the thread that asks already holds them, and that are in order after a fork."""

cdef extern from "mutex.h" nogil:
    # guards_memory: a fork waits until nobody holds it. None that is held for long, or by who waits for something.
    void* mutex_new(bint guards_memory) noexcept
    void mutex_delete(void* mutex) noexcept
    int mutex_lock(void* mutex) noexcept         # 0, or EDEADLK: this thread holds it already
    int mutex_trylock(void* mutex) noexcept      # 0, or EBUSY
    int mutex_unlock(void* mutex) noexcept       # 0, or EPERM: this thread does not hold it
