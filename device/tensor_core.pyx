# distutils: language = c++
"""What every tensor on a device is in C: dtype, layout, place and owner; its buffer protocol and its life."""

cimport cython
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS,
    PyBUF_C_CONTIGUOUS,
    PyBUF_F_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
)
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc

from etarena.device.abi cimport ETARENA_TENSOR, etarena_argument
from etarena.device.resource cimport Resource
from etarena.device.scalar_types cimport buffer_format, item_bytes

from ..allocator.errors import DeviceError, InputError, InputTypeError, SizeOverflowError
from .device import Device
from .dtypes import dtype_name, dtype_number
from .layouts import LARGEST_SIZE, checked_order, strides_of, too_large, whole_numbers

__all__ = ["Pin", "TensorCore"]

cdef int64_t LARGEST = LARGEST_SIZE
cdef int64_t MOST_BYTES = 1 << 62


@cython.final
@cython.no_gc_clear                      # __dealloc__ needs the tensor
cdef class Pin:
    """Counts as an export of a tensor while it lives: the owner of views."""

    def __init__(self):
        raise TypeError("pins are made by tensors")

    def __dealloc__(self):
        if self.tensor is not None:
            self.tensor.exports -= 1


cdef Pin pin(TensorCore tensor):
    cdef Pin out = Pin.__new__(Pin)
    out.tensor = tensor
    tensor.exports += 1
    return out


cdef class TensorCore:
    """Base of `ETensor`."""

    def __cinit__(self, *args, **kwargs):
        self.is_closed = True            # until whoever makes it has filled it

    def __init__(self):
        raise TypeError("tensors are made by ETensor")

    cdef int require_open(self) except -1:
        if self.is_closed:
            raise DeviceError("this ETensor is closed")
        return 0

    cdef int require_cpu(self, str what) except -1:
        self.require_open()
        if not self.is_cpu():
            raise DeviceError(
                f"this ETensor lies on {self.device}: {what} would read it as CPU memory. Use .map() or .to('cpu')"
            )
        return 0

    cdef bint is_cpu(self) noexcept:
        return self.place.type == 0

    cdef int64_t count(self) noexcept:
        cdef int64_t items = 1
        cdef int d
        for d in range(self.rank):
            items *= self.sizes[d]
        return items

    cdef int64_t span(self) noexcept:
        cdef int64_t last = 0
        cdef int d
        for d in range(self.rank):
            if self.sizes[d] == 0:
                return 0
            last += <int64_t> (self.sizes[d] - 1) * self.steps[d]
        return (last + 1) * item_bytes(self.code)

    cdef bint is_dense(self) noexcept:
        return self.lies_dense(self.order)

    cdef bint lies_dense(self, const uint8_t* order) noexcept:
        """Whether the items lie without gaps in this order of dimensions; those of size 1 fit anywhere."""
        cdef int64_t step = 1
        cdef int i, d
        for i in range(self.rank - 1, -1, -1):
            d = order[i]
            if self.sizes[d] == 0:
                return True
            if self.sizes[d] != 1 and self.steps[d] != step:
                return self.count() == 0
            step *= self.sizes[d]
        return True

    cdef bint is_row_major(self) noexcept:
        cdef int64_t step = 1
        cdef int d
        for d in range(self.rank - 1, -1, -1):
            if self.sizes[d] == 0:
                return True
            if self.sizes[d] != 1 and self.steps[d] != step:
                return self.count() == 0
            step *= self.sizes[d]
        return True

    cdef int set_sizes(self, int code, int rank, const int64_t* sizes, const int64_t* strides) except -1:
        """Take dtype and layout; `strides` may be NULL for row-major."""
        cdef int64_t step = 1, last = 0
        cdef int d
        if rank > MAX_RANK:
            raise InputError(f"a tensor of {rank} dimensions: ExecuTorch has at most {MAX_RANK}")
        self.code, self.rank = code, rank
        for d in range(rank - 1, -1, -1):
            if not 0 <= sizes[d] <= LARGEST:
                raise too_large("size", sizes[d], d)
            self.sizes[d] = <int32_t> sizes[d]
            if strides != NULL:
                step = strides[d]
            if not 0 <= step <= LARGEST:
                if sizes[d] > 1 or strides == NULL:
                    raise too_large("stride", step, d)
                step = 1                 # of one item or none: never used
            self.steps[d] = <int32_t> step
            if sizes[d] > 0:
                last += (sizes[d] - 1) * step
            if last >= MOST_BYTES // 32:
                raise SizeOverflowError(f"sizes {[sizes[i] for i in range(rank)]}: a tensor has at most 2**57 items")
            if strides == NULL:
                step *= max(sizes[d], 1)
        order_by_stride(self)
        return 0

    cdef int set_layout(self, dtype, shape, strides, dim_order) except -1:
        """Take dtype and layout from Python, with `strides` in elements or a `dim_order`, or neither: row-major."""
        cdef int64_t[MAX_RANK] sizes
        cdef int64_t[MAX_RANK] steps
        cdef int d
        code = dtype_number(dtype)
        numbers = whole_numbers("shape", (shape,) if hasattr(shape, "__index__") else shape)
        if strides is not None and dim_order is not None:
            raise InputError("give strides or dim_order, not both")
        if dim_order is not None:
            strides = strides_of(numbers, checked_order(dim_order, len(numbers)))
        elif strides is not None:
            strides = whole_numbers("strides", strides)
            if len(strides) != len(numbers):
                raise InputError(f"{len(strides)} strides for a shape of {len(numbers)} dimensions")
        for d, size in enumerate(numbers):
            sizes[d] = size
            steps[d] = strides[d] if strides is not None else 0
        self.set_sizes(code, len(numbers), sizes, <const int64_t*> steps if strides is not None else NULL)
        if dim_order is not None:
            for d, dim in enumerate(dim_order):
                self.order[d] = dim
        return 0

    cdef int fill_argument(self, etarena_argument* out) except -1:
        """Describe this tensor as the C interface does; valid while the tensor is open."""
        self.require_open()
        out.struct_size = sizeof(etarena_argument)
        out.kind, out.integer, out.number = ETARENA_TENSOR, 0, 0.0
        out.dtype, out.rank = self.code, self.rank
        out.sizes, out.strides, out.dim_order = self.sizes, self.steps, self.order
        out.data = self.data if self.is_cpu() else <void*> &self.source.c_obj
        out.nbytes = <size_t> self.count() * item_bytes(self.code)
        out.device = self.place
        return 0

    @property
    def dtype(self) -> str:
        """Name of the dtype, as torch has it: ``"float32"``."""
        return dtype_name(self.code)

    @property
    def dtype_code(self) -> int:
        """ExecuTorch's number of the dtype."""
        return self.code

    @property
    def shape(self) -> tuple:
        """Sizes of the dimensions."""
        return tuple([self.sizes[d] for d in range(self.rank)])

    @property
    def strides(self) -> tuple:
        """Distances between neighbours in each dimension, in items."""
        return tuple([self.steps[d] for d in range(self.rank)])

    @property
    def dim_order(self) -> tuple:
        """Dimensions from the outermost to the innermost in memory."""
        return tuple([self.order[d] for d in range(self.rank)])

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.rank

    @property
    def itemsize(self) -> int:
        """Bytes of an item."""
        return item_bytes(self.code)

    @property
    def numel(self) -> int:
        """Number of items."""
        return self.count()

    @property
    def nbytes(self) -> int:
        """Bytes of all items together."""
        return self.count() * item_bytes(self.code)

    @property
    def is_contiguous(self) -> bool:
        """Whether the items lie in row-major order without gaps."""
        return self.is_row_major()

    @property
    def device(self):
        """Where the memory is."""
        return CPU if self.place.type == 0 and self.place.index == 0 else Device(self.place.type, self.place.index)

    @property
    def resource(self):
        """The memory as a `Resource`, which keeps what this tensor keeps alive."""
        self.require_open()
        if self.source is None:
            self.lent = True
            return Resource.host(<uintptr_t> self.data, self.span(), owner=self.owner)
        return self.source

    @property
    def address(self) -> int:
        """Address of the first item; `DeviceError` if the memory is not the CPU's."""
        self.require_cpu("address")
        return <uintptr_t> self.data

    @property
    def n_exports(self) -> int:
        """Arrays, tensors and memoryviews that use the memory and keep `close` from working."""
        return self.exports

    @property
    def __array_interface__(self) -> dict:
        """NumPy's description of the memory, valid while this object lives; `numpy()` counts its users and this not."""
        self.require_cpu("__array_interface__")
        text = array_typestr(self.code)
        self.lent = True
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": text,
            "strides": None if self.is_row_major() else tuple(step * self.itemsize for step in self.strides),
            "data": (<uintptr_t> self.data, bool(self.readonly)),
        }

    def close(self) -> None:
        """Let go of the memory; every later use is a `DeviceError`. Closing twice does nothing.

        Raises
        ------
        BufferError
            An array, a tensor or a memoryview made from this one still uses the memory; the tensor stays open.
        """
        if self.is_closed:
            return
        if self.exports:
            raise BufferError(
                f"{self.exports} arrays, tensors or memoryviews still use the memory of this {self.dtype} tensor of "
                f"shape {self.shape}: drop them, or copy what is to be kept"
            )
        self.is_closed = True
        self.source = None
        self.data = NULL
        if not self.lent:
            self.owner = None

    def __enter__(self):
        self.require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("an ETensor cannot be pickled: its memory belongs to this process; pickle .cpu().numpy()")

    def __copy__(self):
        raise TypeError("copying an ETensor is ambiguous: use .view() for the same memory, .clone() for a copy")

    def __deepcopy__(self, memo):
        raise TypeError("copying an ETensor is ambiguous: use .view() for the same memory, .clone() for a copy")

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        cdef const char* text
        cdef Py_ssize_t* dims
        cdef int d
        cdef Py_ssize_t item = item_bytes(self.code)
        self.require_cpu("the buffer protocol")
        text = buffer_format(self.code)
        if text == NULL and flags & PyBUF_FORMAT:
            raise BufferError(
                f"neither NumPy nor the buffer protocol has a dtype like {self.dtype}; use .torch(), or "
                f".view('{'uint16' if item == 2 else 'uint8'}') for the bits"
            )
        if self.readonly and flags & PyBUF_WRITABLE:
            raise BufferError("this tensor is read-only")
        refuse_layout(self, flags)
        dims = <Py_ssize_t*> malloc((2 * self.rank + 1) * sizeof(Py_ssize_t))
        if dims == NULL:
            raise MemoryError
        for d in range(self.rank):
            dims[d], dims[self.rank + d] = self.sizes[d], self.steps[d] * item
        buffer.buf = self.data if self.data != NULL else <void*> &NOTHING
        buffer.obj, buffer.len, buffer.itemsize = self, self.count() * item, item
        buffer.readonly, buffer.ndim = self.readonly, self.rank
        buffer.format = <char*> text if flags & PyBUF_FORMAT else NULL
        buffer.shape = dims if flags & PyBUF_ND else NULL
        buffer.strides = dims + self.rank if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        buffer.suboffsets = NULL
        buffer.internal = dims
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        free(buffer.internal)
        self.exports -= 1

    def __repr__(self) -> str:
        if self.is_closed:
            return f"<{type(self).__name__} closed>"
        where = f"at 0x{<uintptr_t> self.data:x}" if self.is_cpu() else repr(self.source)
        notes = ["" if self.is_row_major() else f" strides={self.strides}", " read-only" if self.readonly else ""]
        return f"<{type(self).__name__} {self.dtype}{list(self.shape)} on {self.device} {where}{''.join(notes)}>"


cdef char NOTHING = 0                    # where tensors without items begin
cdef object CPU = Device("cpu")


cdef int refuse_layout(TensorCore tensor, int flags) except -1:
    """Refuse consumers that cannot take this tensor's strides."""
    cdef bint strided = flags & PyBUF_STRIDES == PyBUF_STRIDES
    if tensor.is_row_major() and flags & PyBUF_F_CONTIGUOUS != PyBUF_F_CONTIGUOUS:
        return 0
    if not strided or flags & PyBUF_C_CONTIGUOUS == PyBUF_C_CONTIGUOUS:
        raise BufferError(f"a tensor of strides {tensor.strides} is not row-major; clone() one that is")
    if flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS and not is_column_major(tensor):
        raise BufferError(f"a tensor of strides {tensor.strides} is not column-major")
    if flags & PyBUF_ANY_CONTIGUOUS == PyBUF_ANY_CONTIGUOUS and not is_column_major(tensor):
        raise BufferError(f"a tensor of strides {tensor.strides} is neither row-major nor column-major")
    return 0


cdef bint is_column_major(TensorCore tensor) noexcept:
    cdef int64_t step = 1
    cdef int d
    for d in range(tensor.rank):
        if tensor.sizes[d] > 1 and tensor.steps[d] != step:
            return tensor.count() == 0
        step *= tensor.sizes[d]
    return True


cdef void order_by_stride(TensorCore tensor) noexcept:
    """Sort dimensions by falling stride; those of equal stride stay as they are."""
    cdef int i, k
    for i in range(tensor.rank):
        k = i
        while k > 0 and tensor.steps[tensor.order[k - 1]] < tensor.steps[i]:
            tensor.order[k] = tensor.order[k - 1]
            k -= 1
        tensor.order[k] = <uint8_t> i


cdef str array_typestr(int code):
    """NumPy's name of a dtype, such as ``<f4``."""
    kinds = {"b": "i", "h": "i", "i": "i", "q": "i", "B": "u", "H": "u", "I": "u", "Q": "u", "e": "f", "f": "f"}
    text = buffer_format(code)
    if text == NULL:
        raise InputTypeError(f"NumPy has no dtype like {dtype_name(code)}; use .torch()")
    name = (<bytes> text).decode()
    kind = kinds.get(name) or {"d": "f", "Zf": "c", "Zd": "c", "?": "b"}[name]
    return f"{'|' if item_bytes(code) == 1 else '<'}{kind}{item_bytes(code)}"
