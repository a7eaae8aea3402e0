"""Integer arithmetic on sizes that says when it overflows: one place, used wherever bytes are added or multiplied.

Functions returning int give 0 and write the result, or give non-zero and leave it unspecified.
"""

from libc.stdint cimport int64_t


cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>

    #define CHECKED_OVERFLOW 1
    #define CHECKED_ZERO 2
    #define CHECKED_INEXACT 3

    static inline int checked_add(int64_t a, int64_t b, int64_t *out) { return __builtin_add_overflow(a, b, out); }
    static inline int checked_sub(int64_t a, int64_t b, int64_t *out) { return __builtin_sub_overflow(a, b, out); }
    static inline int checked_mul(int64_t a, int64_t b, int64_t *out) { return __builtin_mul_overflow(a, b, out); }

    /* Division rounds towards minus infinity, as Python's // and % do. */
    static inline int checked_divmod(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder) {
        if (b == 0) return CHECKED_ZERO;
        if (b == -1) { *remainder = 0; return checked_sub(0, a, quotient); }
        *quotient = a / b;
        *remainder = a % b;
        if (*remainder != 0 && (*remainder < 0) != (b < 0)) { *quotient -= 1; *remainder += b; }
        return 0;
    }
    static inline int checked_floordiv(int64_t a, int64_t b, int64_t *out) {
        int64_t remainder;
        return checked_divmod(a, b, out, &remainder);
    }
    static inline int checked_ceildiv(int64_t a, int64_t b, int64_t *out) {
        int64_t remainder;
        int status = checked_divmod(a, b, out, &remainder);
        if (status == 0 && remainder != 0) *out += 1;
        return status;
    }
    static inline int checked_exactdiv(int64_t a, int64_t b, int64_t *out) {
        int64_t remainder;
        int status = checked_divmod(a, b, out, &remainder);
        return status == 0 && remainder != 0 ? CHECKED_INEXACT : status;
    }
    static inline int checked_mod(int64_t a, int64_t b, int64_t *out) {
        int64_t quotient;
        if (b == 0) return CHECKED_ZERO;
        if (b == -1) { *out = 0; return 0; }
        return checked_divmod(a, b, &quotient, out);
    }
    static inline int checked_pow(int64_t base, int64_t exponent, int64_t *out) {
        int64_t result = 1;
        if (exponent < 0) return CHECKED_INEXACT;
        while (exponent > 0) {
            if ((exponent & 1) && checked_mul(result, base, &result)) return CHECKED_OVERFLOW;
            exponent >>= 1;
            if (exponent > 0 && checked_mul(base, base, &base)) return CHECKED_OVERFLOW;
        }
        *out = result;
        return 0;
    }
    /* alignment: a power of two */
    static inline int checked_align_up(int64_t value, int64_t alignment, int64_t *out) {
        if (__builtin_add_overflow(value, alignment - 1, out)) return CHECKED_OVERFLOW;
        *out &= ~(alignment - 1);
        return 0;
    }
    """
    enum:
        CHECKED_OVERFLOW
        CHECKED_ZERO
        CHECKED_INEXACT
    int checked_add(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_sub(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_mul(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_divmod(int64_t a, int64_t b, int64_t* quotient, int64_t* remainder) noexcept
    int checked_floordiv(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_ceildiv(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_exactdiv(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_mod(int64_t a, int64_t b, int64_t* out) noexcept
    int checked_pow(int64_t base, int64_t exponent, int64_t* out) noexcept
    int checked_align_up(int64_t value, int64_t alignment, int64_t* out) noexcept
