# distutils: language = c++
"""ExecuTorch's scalar types as DLPack and the buffer protocol name them."""

from cpython.buffer cimport Py_buffer
from libc.string cimport strlen

from etarena.device.dlpack cimport (
    DLPACK_BFLOAT,
    DLPACK_BOOL,
    DLPACK_COMPLEX,
    DLPACK_FLOAT,
    DLPACK_FLOAT8_E4M3FN,
    DLPACK_FLOAT8_E4M3FNUZ,
    DLPACK_FLOAT8_E5M2,
    DLPACK_FLOAT8_E5M2FNUZ,
    DLPACK_INT,
    DLPACK_UINT,
    DLDataType,
)

__all__ = []

cdef (const char*)[32] FORMATS           # as the struct module writes them; NULL when there is none


cdef int fill_tables() except -1:
    cdef int code
    for code in range(32):
        FORMATS[code] = NULL
    FORMATS[0], FORMATS[1], FORMATS[2], FORMATS[3], FORMATS[4] = b"B", b"b", b"h", b"i", b"q"
    FORMATS[5], FORMATS[6], FORMATS[7], FORMATS[9], FORMATS[10] = b"e", b"f", b"d", b"Zf", b"Zd"
    FORMATS[11], FORMATS[27], FORMATS[28], FORMATS[29] = b"?", b"H", b"I", b"Q"
    return 0

fill_tables()


cdef const char* buffer_format(int code) noexcept nogil:
    return FORMATS[code] if 0 <= code < 32 else NULL


cdef int dtype_code(DLDataType dtype) noexcept nogil:
    if dtype.lanes != 1:
        return -1
    if dtype.code == DLPACK_FLOAT:
        return 6 if dtype.bits == 32 else 5 if dtype.bits == 16 else 7 if dtype.bits == 64 else -1
    if dtype.code == DLPACK_INT:
        return (
            4 if dtype.bits == 64 else 3 if dtype.bits == 32 else 2 if dtype.bits == 16
            else 1 if dtype.bits == 8 else -1
        )
    if dtype.code == DLPACK_UINT:
        return (
            0 if dtype.bits == 8 else 27 if dtype.bits == 16 else 28 if dtype.bits == 32
            else 29 if dtype.bits == 64 else -1
        )
    if dtype.code == DLPACK_BOOL:
        return 11 if dtype.bits == 8 else -1
    if dtype.code == DLPACK_BFLOAT:
        return 15 if dtype.bits == 16 else -1
    if dtype.code == DLPACK_COMPLEX:
        return 9 if dtype.bits == 64 else 10 if dtype.bits == 128 else 8 if dtype.bits == 32 else -1
    return float8_code(dtype)


cdef int float8_code(DLDataType dtype) noexcept nogil:
    if dtype.bits != 8:
        return -1
    if dtype.code == DLPACK_FLOAT8_E5M2:
        return 23
    if dtype.code == DLPACK_FLOAT8_E4M3FN:
        return 24
    if dtype.code == DLPACK_FLOAT8_E5M2FNUZ:
        return 25
    return 26 if dtype.code == DLPACK_FLOAT8_E4M3FNUZ else -1


cdef DLDataType dlpack_dtype(int code) noexcept nogil:
    """Give the DLPack type of an ExecuTorch ScalarType; bits 0 when there is none."""
    cdef DLDataType out
    out.lanes = 1
    out.bits = 0
    out.code = DLPACK_INT
    if 1 <= code <= 4:
        out.bits = 8 << (code - 1)
    elif 5 <= code <= 7:
        out.code, out.bits = DLPACK_FLOAT, 16 << (code - 5)
    elif code == 0:
        out.code, out.bits = DLPACK_UINT, 8
    elif code == 11:
        out.code, out.bits = DLPACK_BOOL, 8
    elif code == 15:
        out.code, out.bits = DLPACK_BFLOAT, 16
    elif 27 <= code <= 29:
        out.code, out.bits = DLPACK_UINT, 16 << (code - 27)
    elif 8 <= code <= 10:
        out.code, out.bits = DLPACK_COMPLEX, 32 << (code - 8)
    elif 23 <= code <= 26:
        out.bits = 8
        out.code = (
            DLPACK_FLOAT8_E5M2 if code == 23 else DLPACK_FLOAT8_E4M3FN if code == 24
            else DLPACK_FLOAT8_E5M2FNUZ if code == 25 else DLPACK_FLOAT8_E4M3FNUZ
        )
    return out


cdef DLDataType buffer_dtype(const Py_buffer* view):
    """Give the DLPack type of a buffer's items; bits 0 when it has none."""
    return dlpack_dtype(buffer_code(view))


cdef int buffer_code(const Py_buffer* view) noexcept:
    """Give ExecuTorch's type of a buffer's items, -1 when it has none. Only the machine's own byte order (little)."""
    cdef const char* text = b"B"
    cdef Py_ssize_t size = view.itemsize
    cdef char kind
    if view.format != NULL:
        text = view.format
    if text[0] in b"@=<" and text[0] != 0:
        text += 1
    if strlen(text) == 2 and text[0] == b"Z"[0]:
        return 8 if size == 4 else 9 if size == 8 else 10 if size == 16 else -1
    if strlen(text) != 1:
        return -1
    kind = text[0]
    if kind in b"bhilqn":
        return 1 if size == 1 else 2 if size == 2 else 3 if size == 4 else 4 if size == 8 else -1
    if kind in b"BHILQN":
        return 0 if size == 1 else 27 if size == 2 else 28 if size == 4 else 29 if size == 8 else -1
    if kind in b"efd":
        return 5 if size == 2 else 6 if size == 4 else 7 if size == 8 else -1
    return 11 if kind == b"?"[0] and size == 1 else -1
