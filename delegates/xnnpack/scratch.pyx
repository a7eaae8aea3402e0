# distutils: language = c++
"""XNNPACK runtimes of a method that is being loaded, and the scratch they use."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument, NativeUser, ScratchUser

from etarena.allocator.errors import ArenaFullError, RuntimeFailure

__all__ = ["Runtime", "begin_capture", "end_capture", "held_by_others", "is_active", "reshape_ns_of_others"]

cdef extern from "scratch.h" namespace "etarena::xnnpack" nogil:
    bint active()
    void c_begin_capture "etarena::xnnpack::begin_capture"()
    vector[shared_ptr[KnownRuntime]] c_end_capture "etarena::xnnpack::end_capture"()
    vector[unsigned int] inputs_of(const shared_ptr[KnownRuntime]& known)
    void read_sizes_from(
        const shared_ptr[KnownRuntime]& known, size_t input, const int32_t* sizes, const uint8_t* order, size_t rank)
    vector[vector[int32_t]] sizes_of(const shared_ptr[KnownRuntime]& known)
    int c_measure "etarena::xnnpack::measure"(void* known, int64_t* nbytes) noexcept
    void c_leave "etarena::xnnpack::leave"(const shared_ptr[KnownRuntime]& known)
    int c_place "etarena::xnnpack::place"(void* known, char* address, int64_t nbytes) noexcept

cdef extern from "others.h" namespace "etarena::xnnpack" nogil:
    cppclass Held:
        size_t now
        size_t most
    Held c_held_by_others "etarena::xnnpack::held_by_others"()
    int64_t c_reshape_ns_of_others "etarena::xnnpack::reshape_ns_of_others"()

STATUS = {
    1: "uninitialized",
    2: "invalid parameter",
    3: "invalid state",
    4: "unsupported parameter",
    5: "unsupported hardware",
    6: "out of memory",
}


cdef class Runtime(ScratchUser):
    """The runtime behind one XNNPACK delegate; valid as long as the native method that owns the delegate."""

    cdef int ask(self, const vector[Argument]& arguments) except -1:
        """Note where the sizes of the inputs will be, in the order in which they lie in memory; nothing is wanted."""
        cdef vector[unsigned int] ids = inputs_of(self.handle)
        cdef size_t i
        for i in range(ids.size()):
            if ids[i] >= arguments.size():
                raise RuntimeFailure(f"XNNPACK wants input {ids[i]} of {arguments.size()} arguments")
        for i in range(ids.size()):
            read_sizes_from(
                self.handle, i, arguments[ids[i]].sizes, arguments[ids[i]].dim_order, arguments[ids[i]].rank)
        return 0

    cdef NativeUser native(self) noexcept:
        return NativeUser(self.handle.get(), c_measure, c_place)

    cdef int64_t measure(self, const vector[Argument]& arguments) except -1:
        """As the contract says; shapes that XNNPACK refuses need nothing, because the call itself will fail."""
        cdef int64_t nbytes = 0
        # With the GIL: letting go of it takes longer than many a reshape.
        return nbytes if c_measure(self.handle.get(), &nbytes) == 0 else 0

    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1:
        cdef int status = c_place(self.handle.get(), address, nbytes)
        if status != 0:
            raise self.failure(status)
        return 0

    cdef int leave(self) except -1:
        """Let XNNPACK allocate this runtime's workspace itself."""
        c_leave(self.handle)
        return 0

    cdef object failure(self, int status):
        """Say which shapes XNNPACK refused, and why."""
        shapes = ", ".join(map(str, sizes_of(self.handle)))
        reason = STATUS.get(status, f"status {status}")
        kind = ArenaFullError if status == 6 else RuntimeFailure
        return kind(f"XNNPACK cannot run a delegate with inputs of shapes {shapes}: {reason}")


def is_active() -> bool:
    """Whether XNNPACK gets its scratch from us: not if its library was loaded before etarena's."""
    return active()


def held_by_others() -> tuple[int, int]:
    """Bytes of the workspaces that XNNPACK allocated itself, for runtimes that etarena does not plan.

    Returns
    -------
    now, most : int
        What it holds, and the most it held at once since this function was called last: while a workspace grows, the
        old and the new one exist together.
    """
    cdef Held held = c_held_by_others()
    return held.now, held.most


def reshape_ns_of_others() -> int:
    """Nanoseconds that XNNPACK spent in reshaping runtimes of others since this function was called last."""
    return c_reshape_ns_of_others()


def begin_capture() -> None:
    """Take hold of the runtimes that this thread makes from now on."""
    c_begin_capture()


def end_capture() -> list[Runtime | None]:
    """Give the runtimes made since `begin_capture`, in order; None for one whose scratch XNNPACK keeps to itself."""
    cdef vector[shared_ptr[KnownRuntime]] made = c_end_capture()
    cdef Runtime runtime
    cdef size_t i
    found = []
    for i in range(made.size()):
        if made[i].get() == NULL:
            found.append(None)
            continue
        runtime = Runtime.__new__(Runtime)
        runtime.backend, runtime.handle = "XnnpackBackend", made[i]
        found.append(runtime)
    return found
