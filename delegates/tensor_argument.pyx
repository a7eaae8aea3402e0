# distutils: language = c++
"""A tensor as a Python delegate sees it: memory of someone else's for the time of one call."""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES

from etarena.delegates.table cimport etarena_argument, item_bytes

__all__ = ["TensorArgument"]

FORMATS = {
    0: b"B", 1: b"b", 2: b"h", 3: b"i", 4: b"q", 5: b"e", 6: b"f", 7: b"d", 9: b"Zf", 10: b"Zd", 11: b"?", 27: b"H",
    28: b"I", 29: b"Q",
}


@cython.freelist(32)
cdef class TensorArgument:
    """One tensor argument; its memory can be viewed through the buffer protocol while the call lasts."""

    @property
    def shape(self):
        """Sizes."""
        cdef int d
        return tuple([self.sizes[d] for d in range(self.rank)])

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.closed:
            raise BufferError("the tensor was an argument of a delegate's call, which is over")
        format = FORMATS.get(self.dtype)
        if format is None:
            raise BufferError(f"the buffer protocol has no format for ExecuTorch's dtype {self.dtype}")
        buffer.buf, buffer.obj, buffer.len, buffer.readonly = self.data, self, self.nbytes, 0
        buffer.itemsize, buffer.ndim = <Py_ssize_t> item_bytes(self.dtype), self.rank
        buffer.format = NULL
        buffer.shape = NULL
        buffer.strides = NULL
        buffer.suboffsets = NULL
        buffer.internal = NULL
        if flags & PyBUF_FORMAT:
            buffer.format = <char*> format
        if flags & PyBUF_ND:
            buffer.shape = self.sizes
        if (flags & PyBUF_STRIDES) == PyBUF_STRIDES:
            buffer.strides = self.steps
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1

    cdef bint withdraw(self) noexcept:
        self.closed = True
        return self.exports == 0


cdef TensorArgument wrap(const etarena_argument* argument):
    cdef TensorArgument made = TensorArgument.__new__(TensorArgument)
    cdef int d
    cdef Py_ssize_t item = <Py_ssize_t> item_bytes(argument.dtype)
    made.data, made.dtype, made.rank = argument.data, argument.dtype, argument.rank
    made.nbytes = <Py_ssize_t> item
    for d in range(argument.rank):
        made.sizes[d] = argument.sizes[d]
        made.steps[d] = argument.strides[d] * item
        made.nbytes *= argument.sizes[d]
    return made
