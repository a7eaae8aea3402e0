"""Blocks of an arena's heap for Python."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy

from .arena_core cimport ArenaCore
from .heap_core cimport ETARENA_DEBUG, HeapHandle

from . import arena_errors
from .errors import Error

__all__ = ["Block", "live_blocks"]

cdef Py_ssize_t n_live = 0              # only counted in debug builds


def live_blocks() -> int:
    """Number of `Block` objects; always 0 unless this is a debug build."""
    return n_live


cdef Block new_block(ArenaCore arena, size_t nbytes, size_t alignment):
    cdef Block block = Block.__new__(Block)
    block.arena = arena
    block.start = arena.allocate(nbytes, alignment, True, &block.handle)
    block.length = nbytes
    return block


@cython.final
@cython.no_gc_clear                     # __dealloc__ needs the arena
cdef class Block:
    """Memory on the heap of an `Arena`, freed when the last reference is dropped.

    Supports the buffer protocol (writable bytes) and weak references. Made by `Arena.alloc` only.
    """

    def __cinit__(self):
        global n_live
        if ETARENA_DEBUG:
            n_live += 1

    def __init__(self):
        raise TypeError("blocks are made by Arena.alloc")

    def __dealloc__(self):
        global n_live
        if ETARENA_DEBUG:
            n_live -= 1
        if self.start is not NULL and self.is_live():
            self.arena.release(self.handle)

    def __repr__(self) -> str:
        state = f"address=0x{<uintptr_t>self.start:x}" if self.is_live() else "freed"
        return f"<Block {state} nbytes={self.length}>"

    def __len__(self) -> int:
        return self.length

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.start is NULL:
            raise BufferError("this block was freed")
        if not self.arena.pin(self.handle, 1):
            raise BufferError("this block was freed when its arena was rewound")
        try:
            PyBuffer_FillInfo(buffer, self, self.start, self.length, 0, flags)
        except BaseException:
            self.arena.pin(self.handle, -1)
            raise
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1
        self.arena.pin(self.handle, -1)

    @property
    def address(self) -> int:
        """Address of the first byte.

        Raises
        ------
        Error
            The block was freed, or its arena was rewound.
        """
        self.require_live()
        return <uintptr_t>self.start

    @property
    def nbytes(self) -> int:
        """Bytes that were asked for."""
        return self.length

    @property
    def is_freed(self) -> bool:
        """Whether `free` was called or the arena was rewound."""
        return not self.is_live()

    def free(self) -> None:
        """Give the memory back now.

        Raises
        ------
        BufferError
            A memoryview or array still uses it.
        Error
            The block was freed before, or its arena was rewound.
        """
        self.require_unused()
        if self.start is NULL:
            raise Error("this block was freed before")
        self.arena.release(self.handle)
        self.start = NULL

    def resize(self, nbytes: int) -> None:
        """Grow or shrink; contents up to the smaller size are kept, and the address too where what follows is free.

        Parameters
        ----------
        nbytes : int
            New size in bytes. A block that has to move keeps an alignment of 64 bytes.

        Raises
        ------
        ArenaFullError
            No room; the block is as it was.
        BufferError
            A memoryview or array still uses it.
        Error
            The block was freed, or its arena was rewound.
        ValueError
            A negative size.
        """
        cdef HeapHandle handle
        cdef char* start
        cdef size_t size = self.arena.count_bytes(nbytes)
        self.require_unused()
        self.require_live()
        if not self.arena.resize_in_place(self.handle, size):
            start = self.arena.allocate(size, 64, True, &handle)
            memcpy(start, self.start, min(<size_t>self.length, size))
            self.arena.release(self.handle)
            self.start, self.handle = start, handle
        self.length = size

    cdef bint is_live(self) noexcept:
        return self.start is not NULL and self.arena.pin(self.handle, 0)

    cdef int require_live(self) except -1:
        if self.start is NULL:
            raise Error("this block was freed")
        if not self.is_live():
            raise arena_errors.rewound(self.arena)
        return 0

    cdef int require_unused(self) except -1:
        if self.exports:
            raise BufferError(f"{self.exports} memoryviews or arrays still use this block of {self.length} bytes")
        return 0
