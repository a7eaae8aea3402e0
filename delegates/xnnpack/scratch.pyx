# distutils: language = c++
"""XNNPACK runtimes of a method that is being loaded, and the scratch they use."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument, ScratchUser

from etarena.allocator.errors import ArenaFullError, RuntimeFailure

__all__ = ["Runtime", "begin_capture", "end_capture", "held_by_others", "is_active"]

cdef extern from "scratch.h" namespace "etarena::xnnpack" nogil:
    bint active()
    void c_begin_capture "etarena::xnnpack::begin_capture"()
    vector[void*] c_end_capture "etarena::xnnpack::end_capture"()
    vector[unsigned int] inputs_of(void* runtime)
    int c_measure "etarena::xnnpack::measure"(void* runtime, const vector[Shape]& shapes, size_t* nbytes)
    void c_leave "etarena::xnnpack::leave"(void* runtime)
    int c_place "etarena::xnnpack::place"(void* runtime, const vector[Shape]& shapes, char* address, size_t nbytes)

cdef extern from "others.h" namespace "etarena::xnnpack" nogil:
    cppclass Held:
        size_t now
        size_t most
    Held c_held_by_others "etarena::xnnpack::held_by_others"()

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

    cdef int take(self, const vector[Argument]& arguments) except -1:
        """Note the sizes of the inputs, in the order in which they lie in memory."""
        cdef size_t i
        cdef int d
        cdef const Argument* argument
        for i in range(self.shapes.size()):
            if self.shapes[i].id >= arguments.size():
                raise RuntimeFailure(f"XNNPACK wants input {self.shapes[i].id} of {arguments.size()} arguments")
            argument = &arguments[self.shapes[i].id]
            self.shapes[i].dims.resize(argument.rank)
            for d in range(argument.rank):
                self.shapes[i].dims[d] = argument.sizes[argument.dim_order[d]]
        return 0

    cdef int64_t measure(self, const vector[Argument]& arguments) except -1:
        """As the contract says; shapes that XNNPACK refuses need nothing, because the call itself will fail."""
        cdef size_t nbytes = 0
        cdef int status
        self.take(arguments)
        with nogil:
            status = c_measure(self.runtime, self.shapes, &nbytes)
        self.refused = status != 0
        return 0 if self.refused else <int64_t> nbytes

    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1:
        cdef int status
        self.take(arguments)
        if nbytes == 0 and self.refused:
            return 0
        with nogil:
            status = c_place(self.runtime, self.shapes, address, <size_t> nbytes)
        if status != 0:
            raise self.failure(status)
        return 0

    cdef int leave(self) except -1:
        """Let XNNPACK allocate this runtime's workspace itself."""
        c_leave(self.runtime)
        return 0

    cdef object failure(self, int status):
        """Say which shapes XNNPACK refused, and why."""
        shapes = ", ".join(str([dim for dim in shape.dims]) for shape in self.shapes)
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


def begin_capture() -> None:
    """Take hold of the runtimes that this thread makes from now on."""
    c_begin_capture()


def end_capture() -> list[Runtime | None]:
    """Give the runtimes made since `begin_capture`, in order; None for one whose scratch XNNPACK keeps to itself."""
    cdef vector[void*] made = c_end_capture()
    cdef vector[unsigned int] inputs
    cdef Runtime runtime
    cdef size_t i, k
    found = []
    for i in range(made.size()):
        if made[i] == NULL:
            found.append(None)
            continue
        runtime = Runtime.__new__(Runtime)
        runtime.backend, runtime.runtime = "XnnpackBackend", made[i]
        inputs = inputs_of(runtime.runtime)
        runtime.shapes.resize(inputs.size())
        for k in range(inputs.size()):
            runtime.shapes[k].id = inputs[k]
        found.append(runtime)
    return found
