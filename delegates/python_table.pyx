# distutils: language = c++
"""Function tables whose functions call the methods of a `Delegate` class."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetInterrupt, PyErr_SetObject, PyErr_WriteUnraisable
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy

from etarena.delegates.repeating cimport Repeating
from etarena.delegates.table cimport (
    ETARENA_BOOL, ETARENA_DOUBLE, ETARENA_INT, Table, etarena_delegate, etarena_requirement, etarena_spec,
)
from etarena.device.abi cimport (
    ETARENA_ABI, ETARENA_FAILED, ETARENA_OK, ETARENA_TENSOR, etarena_argument, etarena_error,
)
from etarena.device.etensor cimport ETensor, from_argument

import operator
import traceback
from threading import get_ident

from etarena.delegates.delegate import Delegate, Requirement

__all__ = ["hold_leaked", "table_of_class"]

cdef dict leaked = {}                   # by thread: tensors still viewed after their call, until their memory is held

cdef extern from "Python.h":
    bint Py_IsInitialized() nogil

cdef extern from "pending.h" namespace "etarena":
    PyObject* pending_exception
    PyObject* blob_owner


cdef object take_exception():
    """The exception that a delegate left on this thread; None if there is none."""
    global pending_exception
    if pending_exception is NULL:
        return None
    error = <object> pending_exception
    Py_XDECREF(pending_exception)
    pending_exception = NULL
    return error


cdef void set_blob_owner(object owner) noexcept:
    """Say what keeps the bytes of the file alive that this thread loads from; None after the load."""
    global blob_owner
    if owner is None:
        blob_owner = NULL
    else:
        blob_owner = <PyObject*> owner


cdef void clear_frames(object error):
    """Let go of the locals in an exception's frames: they would hold views of memory that is about to serve others."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


cdef int32_t keep(object error, etarena_error* out) noexcept:
    """Leave an exception for whoever called the runtime."""
    global pending_exception
    cdef bytes text
    take_exception()
    clear_frames(error)
    Py_INCREF(error)
    pending_exception = <PyObject*> error
    text = f"{type(error).__name__}: {error}".encode(errors="replace")[:1000]
    memcpy(out.message, <const char*> text, len(text))
    out.message[len(text)] = 0
    return ETARENA_FAILED


cdef void report() noexcept with gil:
    """Show the exception of a run that nobody can raise it from, such as one of ExecuTorch's own Python runtime."""
    error = take_exception()
    leaked.pop(get_ident(), None)
    if error is None:
        return
    if isinstance(error, KeyboardInterrupt):
        PyErr_SetInterrupt()
    else:
        show(error, "a delegate")


cdef object show(error, what):
    """Show an exception that cannot be raised, as Python does with those of ``__del__``."""
    PyErr_SetObject(type(error), error)
    PyErr_WriteUnraisable(what)


@cython.final
cdef class Blob:
    """The bytes that a delegate was compiled to, in the file, which it keeps alive."""

    cdef const void* data
    cdef Py_ssize_t nbytes
    cdef object owner

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*> self.data, self.nbytes, 1, flags)


@cython.final
@cython.freelist(8)
cdef class Scratch:
    """Memory lent for one call; counts who looks at it."""

    cdef void* data
    cdef Py_ssize_t nbytes
    cdef int exports

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.nbytes, 0, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1


cdef object blob_view(const void* data, uint64_t nbytes):
    cdef Blob blob
    if blob_owner is NULL or nbytes == 0:   # a file of someone else's: its bytes may go any time
        return memoryview((<const char*> data)[:nbytes] if nbytes > 0 else b"")
    blob = Blob.__new__(Blob)
    blob.data, blob.nbytes, blob.owner = data, <Py_ssize_t> nbytes, <object> blob_owner
    return memoryview(blob)


cdef int32_t init(
    void* context, const void* blob, uint64_t nbytes, const etarena_spec* specs, uint32_t count, void** handle,
    etarena_error* error,
) noexcept with gil:
    cdef uint32_t i
    try:
        delegate = (<object> context)()
        found = {
            (<bytes> specs[i].key).decode(errors="surrogateescape"): (<const char*> specs[i].value)[:specs[i].nbytes]
            for i in range(count)
        }
        delegate.init(blob_view(blob, nbytes), found)
        Py_INCREF(delegate)
        handle[0] = <void*> delegate
        return ETARENA_OK
    except BaseException as raised:
        return keep(raised, error)


cdef void close(void* context, void* handle) noexcept nogil:
    if Py_IsInitialized():
        close_object(handle)


cdef void close_object(void* handle) noexcept with gil:
    delegate = <object> handle
    try:
        delegate.close()
    except BaseException as raised:
        show(raised, delegate.close)
    Py_DECREF(delegate)


cdef object shapes_of(const etarena_argument* arguments, uint32_t count):
    cdef uint32_t i
    cdef int32_t d
    cdef list shapes = []
    for i in range(count):
        if arguments[i].kind == ETARENA_TENSOR:
            shapes.append(tuple([arguments[i].sizes[d] for d in range(arguments[i].rank)]))
        else:
            shapes.append(number_of(&arguments[i]))
    return shapes


cdef object number_of(const etarena_argument* argument):
    if argument.kind == ETARENA_INT:
        return argument.integer
    if argument.kind == ETARENA_DOUBLE:
        return argument.number
    if argument.kind == ETARENA_BOOL:
        return argument.integer != 0
    return None


cdef int32_t scratch_bytes(
    void* context, void* handle, const etarena_argument* arguments, uint32_t count, uint64_t* nbytes,
    etarena_error* error,
) noexcept with gil:
    try:
        found = (<object> handle).scratch_bytes(shapes_of(arguments, count))
        if isinstance(found, bool) or not hasattr(found, "__index__"):
            raise TypeError(f"scratch_bytes must return an int, it returned {found!r}")
        if not 0 <= operator.index(found) < 1 << 63:
            raise ValueError(f"scratch_bytes must return a number of bytes, it returned {found}")
        nbytes[0] = operator.index(found)
        return ETARENA_OK
    except BaseException as raised:
        return keep(raised, error)


cdef int32_t requirements(
    void* context, void* handle, const etarena_argument* arguments, uint32_t count, etarena_requirement* out,
    etarena_error* error,
) noexcept with gil:
    cdef uint32_t i
    try:
        wishes = (<object> handle).requirements(shapes_of(arguments, count))
        wishes = () if wishes is None else tuple(wishes)
        if len(wishes) > count:
            raise ValueError(f"requirements returned {len(wishes)} entries for {count} arguments")
        for i, wish in enumerate(wishes):
            if wish is None:
                continue
            if not isinstance(wish, Requirement):
                raise TypeError(f"requirements must return Requirement objects or None, entry {i} is {wish!r}")
            out[i].access, out[i].alignment, out[i].size_multiple = wish.access, wish.alignment, wish.size_multiple
            out[i].row_pitch, out[i].devices, out[i].memory = wish.row_pitch, wish.devices, wish.planned
        return ETARENA_OK
    except BaseException as raised:
        return keep(raised, error)


cdef int32_t output_sizes(
    void* context, void* handle, const etarena_argument* arguments, uint32_t count, int32_t* sizes,
    etarena_error* error,
) noexcept with gil:
    cdef uint32_t i, position = 0
    try:
        shapes = shapes_of(arguments, count)
        found = [tuple(shape) for shape in (<object> handle).output_shapes(shapes)]
        tensors = [shape for shape in shapes if isinstance(shape, tuple)]
        if len(found) > len(tensors):
            raise ValueError(f"output_shapes returned {len(found)} shapes for {len(tensors)} tensors")
        kept = len(tensors) - len(found)
        for i, shape in enumerate(tensors):
            wanted = shape if i < <uint32_t> kept else found[i - kept]
            if len(wanted) != len(shape):
                raise ValueError(f"output_shapes returned {wanted} for an output of rank {len(shape)}")
            for size in wanted:
                if not 0 <= size < 1 << 31:
                    raise ValueError(f"output_shapes returned the size {size}")
                sizes[position] = size
                position += 1
        return ETARENA_OK
    except BaseException as raised:
        return keep(raised, error)


cdef int32_t execute(
    void* context, void* handle, const etarena_argument* arguments, uint32_t count, void* scratch,
    uint64_t nbytes, etarena_error* error,
) noexcept with gil:
    cdef uint32_t i
    cdef list args = []
    cdef Scratch lent
    try:
        if isinstance(<object> handle, Repeating):
            if (<Repeating> handle).repeat(arguments, count, scratch, nbytes):
                return ETARENA_OK
        for i in range(count):
            if arguments[i].kind == ETARENA_TENSOR:
                args.append(from_argument(&arguments[i], None, False))
            else:
                args.append(number_of(&arguments[i]))
        lent = Scratch.__new__(Scratch)
        lent.data, lent.nbytes = scratch, <Py_ssize_t> nbytes
        room = PyMemoryView_FromObject(lent)
        try:
            (<object> handle).execute(args, room)
        except BaseException as raised:
            clear_frames(raised)
            withdraw(args, room, lent)
            raise
        kept = withdraw(args, room, lent)
        if kept is not None:
            raise BufferError(
                f"the delegate still holds a view of {kept} after execute(): its memory serves others from now on; "
                "copy what must stay"
            )
        return ETARENA_OK
    except BaseException as raised:
        return keep(raised, error)


cdef object withdraw(list args, object room, Scratch lent):
    """Close what is valid during a call alone; gives the name of something that is still in use, if there is any."""
    cdef Py_ssize_t i
    cdef ETensor tensor
    kept = None
    try:
        room.release()
    except BufferError:
        pass
    if lent.exports > 0:
        kept = "its scratch"
    for i in range(len(args)):
        if not isinstance(args[i], ETensor):
            continue
        tensor = <ETensor> args[i]
        if tensor.exports > 0:
            kept = f"argument {i}"
            leaked.setdefault(get_ident(), []).append(tensor)
        tensor.is_closed = True
    return kept


def hold_leaked(owner: object, tensors=()) -> None:
    """Keep memory alive that a delegate still has views of, though it must not.

    Parameters
    ----------
    owner
        What keeps the memory of all arguments of the runs so far, but for that of `tensors`.
    tensors
        Of the caller. Those on devices are let go: views are of the CPU's memory.
    """
    cdef ETensor tensor
    found = leaked.pop(get_ident(), ())
    if found:
        kept = owner, [each for each in tensors if type(each) is not ETensor or (<ETensor> each).is_cpu()]
        for tensor in found:
            tensor.owner = kept


def table_of_class(str name not None, delegate):
    """Make the function table of a `Delegate` class.

    Parameters
    ----------
    name : str
        Backend id.
    delegate : type
        Subclass of `Delegate`.

    Returns
    -------
    Table
    """
    cdef Table made = Table.__new__(Table)
    cdef etarena_delegate* table = &made.registration.get().table
    made.name = name
    made.registration.get().name = name.encode()
    table.struct_size, table.abi, table.context = sizeof(etarena_delegate), ETARENA_ABI, <void*> delegate
    table.init, table.execute, table.close = init, execute, close
    # What a class leaves as it is need not be asked.
    if delegate.scratch_bytes is not Delegate.scratch_bytes:
        table.scratch_bytes = scratch_bytes
    if delegate.requirements is not Delegate.requirements:
        table.requirements = requirements
    if delegate.output_shapes is not Delegate.output_shapes:
        table.output_sizes = output_sizes
    made.hold(delegate)
    made.registration.get().report = report
    return made
