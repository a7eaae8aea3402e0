from libc.stdint cimport int32_t, int64_t

from .lifetimes cimport Key, Lifetimes

cdef enum:
    N_RULES = 8

# Fills the key of buffer i.
ctypedef void (*Rule)(Lifetimes lives, const int64_t* sizes, int32_t i, Key* key) noexcept nogil

cdef Rule rule_at(int number) noexcept nogil
