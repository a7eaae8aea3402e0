"""Memory that grows row by row without ever moving: what a cache without an upper bound lives in."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from libc.errno cimport errno
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy, memmove, memset
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE, madvise, mmap,
    mprotect,
)

from .pages cimport PAGE, reserve_pages, round_to_pages, unreserve_pages

import os

from .errors import ArenaFullError, Error

__all__ = ["GrowingBlock"]

cdef extern from "<sys/mman.h>" nogil:
    int MADV_NOHUGEPAGE

cdef size_t SMALLEST_RESERVE = <size_t>1 << 24
cdef size_t LARGEST_RESERVE = <size_t>1 << 46
cdef int64_t LARGEST_ROW = <int64_t>1 << 40


@cython.no_gc_clear
cdef class GrowingBlock:
    """Rows of equal size in address space of their own.

    Address space is reserved when the first row is asked for, and pages become usable as rows do, so memory is what the
    rows need and less than two pages more. With a window, rows are dropped at the front: what remains is written no
    second time, the pages behind it go back to the system, and only when the end of the address space is reached the
    window is moved to the start. Supports the buffer protocol: all rows, read-only; while a buffer is in use, its pages
    stay. Not thread-safe.

    Parameters
    ----------
    row_bytes : int
        Bytes of a row.
    reserve : int, optional
        Bytes of address space, 64 GiB by default: costs no memory, and limits how far the block can grow. If the system
        refuses that much, smaller ranges are tried.
    name : str, optional
        Used in messages.

    Raises
    ------
    ValueError
        A negative or absurd size.
    """

    def __cinit__(self, row_bytes: int, *, reserve: int = 64 << 30, name: str = "block"):
        if not 0 <= row_bytes <= LARGEST_ROW:
            raise ValueError(f"row_bytes must be 0 to {LARGEST_ROW}, got {row_bytes}")
        if not 0 < reserve <= LARGEST_RESERVE:
            raise ValueError(f"reserve must be 1 to {LARGEST_RESERVE} bytes, got {reserve}")
        self.row_bytes, self.name = row_bytes, name
        self.wanted = round_to_pages(reserve) + PAGE

    def __dealloc__(self):
        if self.base is not NULL:
            unreserve_pages(self.base, self.reserved)

    def __repr__(self) -> str:
        return f"<GrowingBlock {self.name!r} rows={self.rows} row_bytes={self.row_bytes}>"

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        self.reserve_rows(self.rows)        # an address, also for no rows at all
        PyBuffer_FillInfo(buffer, self, self.address(), self.rows * self.row_bytes, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1

    @property
    def start(self) -> int:
        """Address of the first row; 0 before any was asked for."""
        return <uintptr_t>self.address()

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.rows * self.row_bytes

    @property
    def usable_bytes(self) -> int:
        """Bytes of the pages that may have memory behind them."""
        return self.usable_to - self.usable_from

    def write(self, content, window: int = 0) -> None:
        """Add rows.

        Parameters
        ----------
        content : bytes-like
            The rows, contiguous.
        window : int, optional
            Rows to keep, the last ones; 0: all.

        Raises
        ------
        ArenaFullError
            The address space or the memory is used up; nothing has changed.
        ValueError
            Not a whole number of rows, or a negative window.
        """
        view = memoryview(content).cast("B")
        if window < 0 or (view.nbytes % self.row_bytes if self.row_bytes else view.nbytes):
            raise ValueError(f"{view.nbytes} bytes are no rows of {self.row_bytes}, or window {window} is negative")
        cdef int64_t count = view.nbytes // self.row_bytes if self.row_bytes else 0
        self.reserve_rows(self.rows + count)
        if count:
            memcpy(self.address() + self.rows * self.row_bytes, PyMemoryView_GET_BUFFER(view).buf, <size_t>view.nbytes)
        self.keep(self.rows + count, window)

    def require(self, rows: int) -> None:
        """Make sure that so many rows fit.

        Raises
        ------
        ArenaFullError
            The address space or the memory is used up.
        """
        if not 0 <= rows <= <int64_t>1 << 62:
            raise ValueError(f"{rows} is no number of rows")
        self.reserve_rows(rows)

    def replace(self, content, rows: int) -> None:
        """Exchange all rows for others.

        Parameters
        ----------
        content : bytes-like
            The rows, contiguous; nothing at all stands for zeros.
        rows : int
            How many.

        Raises
        ------
        ArenaFullError
            As `require`; nothing has changed then.
        ValueError
            The content is not of that many rows.
        """
        view = memoryview(content).cast("B")
        self.require(rows)
        if view.nbytes and view.nbytes != rows * self.row_bytes:
            raise ValueError(f"{view.nbytes} bytes are not {rows} rows of {self.row_bytes}")
        if view.nbytes:
            memcpy(self.address(), PyMemoryView_GET_BUFFER(view).buf, <size_t>view.nbytes)
        elif rows * self.row_bytes:
            memset(self.address(), 0, <size_t>(rows * self.row_bytes))
        self.keep(rows, 0)

    def clear(self) -> None:
        """Forget all rows and give their pages back."""
        self.rows = 0
        if self.exports == 0 and self.base is not NULL:
            self.release(self.usable_from, self.usable_to)
            self.begin = self.usable_from = self.usable_to = 0

    cdef char* address(self) noexcept nogil:
        return NULL if self.base is NULL else self.base + self.begin

    cdef int reserve_rows(self, int64_t rows) except -1:
        cdef size_t nbytes, end
        if rows > <int64_t>LARGEST_RESERVE // max(self.row_bytes, 1):
            raise ArenaFullError(f"state {self.name!r}: {rows} entries of {self.row_bytes} bytes fit no address space")
        nbytes = <size_t>(rows * self.row_bytes)
        if self.base is NULL:
            self.take_address_space(nbytes)
        if self.begin + nbytes + PAGE > self.reserved:
            self.wrap(nbytes)
        end = round_to_pages(self.begin + nbytes) + PAGE      # kernels may read past the end
        if end > self.usable_to:
            if mprotect(self.base + self.usable_to, end - self.usable_to, PROT_READ | PROT_WRITE) != 0:
                raise ArenaFullError(
                    f"state {self.name!r}: the system does not grant memory for {rows} entries of {self.row_bytes} "
                    f"bytes ({os.strerror(errno)}); free memory, or reset the state"
                )
            self.usable_to = end
        return 0

    cdef int take_address_space(self, size_t nbytes) except -1:
        cdef size_t size = self.wanted
        self.base = reserve_pages(size)
        while self.base is NULL and size // 2 > max(SMALLEST_RESERVE, nbytes + PAGE):
            size = round_to_pages(size // 2)
            self.base = reserve_pages(size)
        if self.base is NULL:
            raise ArenaFullError(
                f"state {self.name!r}: the system does not grant {size} bytes of address space ({os.strerror(errno)})"
            )
        self.reserved = size
        madvise(self.base, size, MADV_NOHUGEPAGE)   # a huge page would be far more than a row
        return 0

    cdef int wrap(self, size_t nbytes) except -1:
        """Move a window that has reached the end of the address space back to its start."""
        cdef size_t kept = <size_t>(self.rows * self.row_bytes)
        cdef size_t end = round_to_pages(kept) + PAGE
        if nbytes + PAGE > self.reserved:
            raise ArenaFullError(
                f"state {self.name!r}: its address space of {self.reserved - PAGE} bytes has no room for {nbytes}; "
                "reset it, or keep a window"
            )
        if self.exports:
            raise Error(f"state {self.name!r} has to move, but an array still shows its memory: drop the array")
        if mprotect(self.base, min(end, self.usable_from), PROT_READ | PROT_WRITE) != 0:
            raise ArenaFullError(f"state {self.name!r}: the system does not grant memory for {kept} bytes")
        memmove(self.base, self.base + self.begin, kept)
        self.release(max(end, self.usable_from), self.usable_to)
        self.begin, self.usable_from, self.usable_to = 0, 0, end
        return 0

    cdef void keep(self, int64_t rows, int64_t window) noexcept nogil:
        cdef size_t behind
        self.rows = rows
        if window > 0 and rows > window:
            self.begin += <size_t>((rows - window) * self.row_bytes)
            self.rows = window
        behind = self.begin // PAGE * PAGE
        if behind > self.usable_from and self.exports == 0:
            self.release(self.usable_from, behind)
            self.usable_from = behind

    cdef void release(self, size_t begin, size_t end) noexcept nogil:
        """Give pages back, with the tables that describe them: a fresh mapping in their place."""
        if end > begin:
            mmap(
                self.base + begin, end - begin, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
            )
