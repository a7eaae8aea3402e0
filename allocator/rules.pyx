"""Orders in which buffers may be placed: each rule gives a buffer a key, and buffers with larger keys come first.

A buffer's breadth is the largest sum of live bytes within its lifetime, its conflicts are the bytes of all buffers
whose lifetimes overlap its own. Ties fall back to the order of the buffers.
"""

from libc.stdint cimport int32_t, int64_t

from .lifetimes cimport Key, Lifetimes

__all__ = ["RULES"]


cdef inline double area(Lifetimes lives, const int64_t* sizes, int32_t i) noexcept nogil:
    return <double>sizes[i] * (<double>lives.last[i] - lives.first[i])


cdef void by_breadth_then_execution(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = lives.height[i]
    key.secondary = -<double>lives.first[i]


cdef void by_size_then_execution(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = sizes[i]
    key.secondary = -<double>lives.first[i]


cdef void by_size_then_lifetime(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = sizes[i]
    key.secondary = <double>lives.last[i] - lives.first[i]


cdef void by_area(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = area(lives, sizes, i)
    key.secondary = sizes[i]


cdef void by_breadth_then_area(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = lives.height[i]
    key.secondary = area(lives, sizes, i)


cdef void by_conflicts(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = <double>lives.conflict[i] * sizes[i]
    key.secondary = sizes[i]


cdef void by_lifetime(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = <double>lives.last[i] - lives.first[i]
    key.secondary = sizes[i]


cdef void by_execution(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil:
    key.primary = -<double>lives.first[i]
    key.secondary = sizes[i]


cdef Rule[N_RULES] RULE_TABLE
RULE_TABLE[:] = [
    by_breadth_then_execution, by_size_then_execution, by_size_then_lifetime, by_area, by_breadth_then_area,
    by_conflicts, by_lifetime, by_execution,
]
RULES = (
    "breadth, execution", "size, execution", "size, lifetime", "area", "breadth, area", "conflicts", "lifetime",
    "execution",
)


cdef Rule rule_at(int number) noexcept nogil:
    return RULE_TABLE[number]
