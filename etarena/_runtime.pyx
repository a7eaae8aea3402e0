# distutils: language = c++
"""Owners of ExecuTorch's native Program and Method. The only module that links against ``libexecutorch.so``."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena._native cimport (
    ByteSpan,
    DeviceTag,
    DeviceTypeTag,
    Failure,
    MethodDescription,
    MethodHandle,
    FULL,
    PlanPayload,
    ProgramHandle,
    REGISTERED,
    Registered,
    STOCK,
    STOP_DONE,
    STOP_FAILED,
    StopKind,
    Transfers,
    bridge_allocator,
    bridged_allocate,
    bridged_copy,
    bridged_free,
    c_registered_backends,
    c_registered_kernels,
    register_foreign,
    register_kernels,
    register_plan_backend,
    start_runtime,
    unregister_foreign,
)
from etarena.delegates.foreign cimport new_user
from etarena.delegates.python_table cimport set_blob_owner, take_exception
from etarena.delegates.table cimport Instance, Registration, Table

from etarena.device.abi cimport etarena_device_allocator

from .allocator.errors import PlanError
from .device.exported_table import ExportedTable
from .device.registry import on_registration
from .device.serial import SerialAllocator
from .failures import foreign_failure, native_failure

cdef enum:
    TAG_NONE = 0
    TAG_TENSOR = 1
    TAG_DOUBLE = 3
    TAG_INT = 4
    TAG_BOOL = 5

start_runtime()
if not register_plan_backend():
    raise ImportError("ExecuTorch refused the backend EtarenaPlan: is another copy of etarena loaded?")
if not register_kernels():
    raise ImportError("ExecuTorch refused the kernels of etarena's operators")


cdef object failure_of(str action, Failure& failure, object labels=()):
    log = (<bytes> failure.log).decode(errors="replace")
    if failure.backend.empty():
        return native_failure(action, failure.code, log, labels)
    return foreign_failure(
        action, failure.code, log, (<bytes> failure.backend).decode(), (<bytes> failure.step).decode(),
        (<bytes> failure.reason).decode(errors="replace"), take_exception(),
    )


def registered_kernels() -> frozenset[str]:
    """Return the names of the kernels that this process has, as ``namespace::name.overload``."""
    return frozenset(name.decode() for name in c_registered_kernels())


def registered_backends() -> list[str]:
    """Return the names of the backends that ExecuTorch knows, taken back ones included."""
    return [(<bytes> name).decode(errors="replace") for name in c_registered_backends()]


def register_table(Table table not None) -> str:
    """Make a function table a backend; gives "" or why ExecuTorch refuses: "taken", "stock" or "full"."""
    cdef Registered answer = register_foreign(<shared_ptr[const Registration]> table.registration)
    if answer == REGISTERED:
        return ""
    return "full" if answer == FULL else "stock" if answer == STOCK else "taken"


def unregister_table(str name not None) -> bool:
    """Take a function table back; False if there is none under this name."""
    return unregister_foreign(name.encode())


cdef class NativeProgram:
    """A program over the bytes of a ``.pte`` file, which it keeps alive.

    Parameters
    ----------
    source
        Anything with the buffer protocol; read in place, never written.

    Raises
    ------
    RuntimeFailure
        If the bytes are not a program that this version of ExecuTorch reads.
    """

    def __cinit__(self, source):
        cdef Failure failure
        cdef bint opened
        PyObject_GetBuffer(source, &self.source, PyBUF_SIMPLE)
        self.source_held = True
        self.c_obj = <void*> new ProgramHandle(self.source.buf, <size_t> self.source.len)
        with nogil:
            opened = (<ProgramHandle*> self.c_obj).open(&failure)
        if not opened:
            raise failure_of("loading the program", failure)

    def __dealloc__(self):
        cdef ProgramHandle* program = <ProgramHandle*> self.c_obj
        del program
        if self.source_held:
            PyBuffer_Release(&self.source)

    @property
    def method_names(self):
        """Names of the methods, in the order of the file."""
        cdef Failure failure
        cdef string name
        names = []
        for position in range((<ProgramHandle*> self.c_obj).methods()):
            if not (<ProgramHandle*> self.c_obj).method_name(position, &name, &failure):
                raise failure_of("reading the method names", failure)
            names.append((<bytes> name).decode())
        return names

    def describe(self, str name):
        """Return what the file says of a method.

        A list with (bytes, device type, device index) of each buffer planned ahead of time, the backend ids, and the
        number of instructions.
        """
        cdef Failure failure
        cdef MethodDescription found
        encoded = name.encode()
        if not (<ProgramHandle*> self.c_obj).describe(encoded, &found, &failure):
            raise failure_of(f"reading method {name!r}", failure)
        planned = list(zip(found.planned_bytes, found.planned_types, found.planned_indices))
        return planned, [(<bytes> item).decode() for item in found.backends], found.instructions


cdef class NativeMethod:
    """A loaded method.

    Parameters
    ----------
    program
        The program it belongs to.
    name
        The method's name.
    blocks
        Memory planned ahead of time, as many blocks and as large as `NativeProgram.describe` says: writable buffers,
        and for another device than the CPU (address, bytes, device type, device index).

    Raises
    ------
    RuntimeFailure
        If ExecuTorch cannot load it: an unknown backend or operator, damaged data.
    """

    def __cinit__(self, NativeProgram program not None, str name not None, list blocks not None):
        cdef Failure failure
        cdef PlanPayload payload
        cdef vector[ByteSpan] buffers
        cdef vector[DeviceTag] devices
        cdef uint8_t[::1] memory
        cdef vector[shared_ptr[Instance]] instances
        cdef size_t i
        cdef bint loaded
        self.program, self.name, self.blocks = program, name, blocks
        for block in blocks:
            if isinstance(block, tuple):
                address, nbytes, type, index = block
                buffers.push_back(ByteSpan(<uint8_t*> <size_t> address, <size_t> nbytes))
                devices.push_back(DeviceTag(<DeviceTypeTag> <int> type, <int8_t> index))
                continue
            memory = block
            buffers.push_back(ByteSpan(&memory[0] if memory.shape[0] else NULL, <size_t> memory.shape[0]))
            devices.push_back(DeviceTag(<DeviceTypeTag> 0, 0))
        encoded = name.encode()
        cdef const char* c_name = encoded
        self.c_obj = <void*> new MethodHandle(buffers, devices)
        set_blob_owner(program)
        with nogil:
            loaded = (<MethodHandle*> self.c_obj).load((<ProgramHandle*> program.c_obj)[0], c_name, &payload, &failure)
        set_blob_owner(None)
        instances = (<MethodHandle*> self.c_obj).instances()
        self.delegates = [new_user(instances[i]) for i in range(instances.size())]
        if not loaded:
            raise failure_of(f"loading method {name!r}", failure)
        if payload.data != NULL:
            self.payload = (<const char*> payload.data)[:payload.size]

    def __dealloc__(self):
        cdef MethodHandle* handle = <MethodHandle*> self.c_obj
        self.c_obj = NULL
        if handle != NULL and not self.poisoned:
            with nogil:
                del handle

    @property
    def inputs(self):
        """Value index of each input."""
        handle = <MethodHandle*> self.c_obj
        return [handle.input_value(position) for position in range(handle.inputs())]

    @property
    def outputs(self):
        """Value index of each output."""
        handle = <MethodHandle*> self.c_obj
        return [handle.output_value(position) for position in range(handle.outputs())]

    @property
    def values(self):
        """Number of values of the method."""
        return (<MethodHandle*> self.c_obj).values()

    def tensor(self, size_t value):
        """Return (dtype code, sizes, dim order, dynamism, address, bytes) of a value now, None if it is no tensor."""
        cdef TensorView view
        if value >= (<MethodHandle*> self.c_obj).values() or not (<MethodHandle*> self.c_obj).view(value, &view):
            return None
        sizes = tuple(view.sizes[d] for d in range(view.rank))
        order = tuple(view.dim_order[d] for d in range(view.rank))
        return view.dtype, sizes, order, view.dynamism, <size_t> view.data, view.nbytes

    def device(self, size_t value):
        """Return (device type, device index) of a value now; (0, 0), which is the CPU, if it is no tensor."""
        cdef TensorView view
        if value >= (<MethodHandle*> self.c_obj).values() or not (<MethodHandle*> self.c_obj).view(value, &view):
            return 0, 0
        return view.device_type, view.device_index

    cdef void set_device(self, size_t slot, int type, int index) noexcept:
        """Say on which device an attached value is; it becomes the tensor's tag with the next `rebind`."""
        (<MethodHandle*> self.c_obj).set_device(slot, type, index)

    cdef void use_transfers(self, void* owner, TransferFn copy) noexcept:
        """Let a function copy between devices from now on; `owner` must live as long as this method runs."""
        cdef Transfers transfers
        transfers.owner, transfers.copy = owner, copy
        (<MethodHandle*> self.c_obj).use_transfers(transfers)

    cdef int slot_of(self, const void* impl) noexcept:
        """Position of an attached value by its tensor; -1 for one that is not attached."""
        return (<MethodHandle*> self.c_obj).slot_of(impl)

    cdef int attach(self, const int32_t* indices, const int32_t* ranks, const int32_t* dtypes, int count) except -1:
        """Choose the values that are bound at run time, after checking that the file agrees with the plan."""
        cdef TensorView view
        cdef int i
        for i in range(count):
            if indices[i] < 0 or <size_t> indices[i] >= (<MethodHandle*> self.c_obj).values():
                raise PlanError(f"values[{i}].index: the program has no value {indices[i]}")
            if not (<MethodHandle*> self.c_obj).view(<size_t> indices[i], &view):
                raise PlanError(f"values[{i}].index: value {indices[i]} of the program is not a tensor")
            if view.rank != ranks[i] or view.dtype != dtypes[i]:
                raise PlanError(
                    f"values[{i}]: the program has rank {view.rank} and dtype code {view.dtype}, "
                    f"the plan {ranks[i]} and {dtypes[i]}"
                )
        (<MethodHandle*> self.c_obj).attach(indices, <size_t> count)
        return 0

    cdef void rebind(self, const int32_t* sizes, char** addresses) noexcept:
        """Give every attached value its sizes (flat) and its address."""
        (<MethodHandle*> self.c_obj).rebind(sizes, addresses)

    cdef void set_address(self, int slot, void* address) noexcept:
        """Move one attached value."""
        (<MethodHandle*> self.c_obj).set_address(slot, address)

    cdef void set_int(self, size_t value, int64_t number) noexcept:
        """Write an int value."""
        (<MethodHandle*> self.c_obj).set_int(value, number)

    cdef int view(self, size_t value, TensorView* out) except -1:
        """Look at a value of the method now."""
        if value >= self.values or not (<MethodHandle*> self.c_obj).view(value, out):
            raise PlanError(f"value {value} of method {self.name!r} is not a tensor")
        return 0

    def mark_inputs_set(self):
        """Tell ExecuTorch that all inputs are there: etarena binds them itself."""
        for position in range((<MethodHandle*> self.c_obj).inputs()):
            (<MethodHandle*> self.c_obj).mark_input_set(position)

    cdef int run(self, object labels) except -1:
        """Execute with whatever is bound, without the GIL."""
        cdef Failure failure
        cdef bint done
        with nogil:
            done = (<MethodHandle*> self.c_obj).execute(&failure)
        if done:
            return 0
        # After a failed check the method is in the middle of a run and may hold locks: leave it alone for ever.
        self.poisoned = failure.aborted
        raise failure_of(f"method {self.name!r}", failure, labels)

    cdef int learn_probes(self, const vector[Probe]& probes, size_t instructions, size_t symbols) except -1:
        """Say where numbers that data tells are read."""
        for i in range(probes.size()):
            if probes[i].index >= 0 and <size_t> probes[i].index >= self.values:
                raise PlanError(f"discoveries: the program has no value {probes[i].index}")
        (<MethodHandle*> self.c_obj).learn_probes(probes, instructions, symbols)
        return 0

    cdef void rebind_one(self, size_t slot, const int32_t* sizes, void* address) noexcept:
        """Give one attached value its sizes and address."""
        (<MethodHandle*> self.c_obj).rebind_one(slot, sizes, address)

    cdef void begin_stages(self) noexcept:
        """Forget what was told in the last run."""
        (<MethodHandle*> self.c_obj).begin_stages()

    cdef int run_to_stop(self, Stop* stop, object labels) except -1:
        """Run on, without the GIL, until data tells something new; gives 1 then, 0 at the end of the method."""
        cdef Failure failure
        cdef StopKind kind
        with nogil:
            kind = (<MethodHandle*> self.c_obj).run_to_stop(stop, &failure)
        if kind == STOP_FAILED:
            self.poisoned = failure.aborted
            raise failure_of(f"method {self.name!r}", failure, labels)
        return kind != STOP_DONE

    cdef const int64_t* told_numbers(self) noexcept:
        """The number of each symbol, as far as `told_known` says."""
        return (<MethodHandle*> self.c_obj).told_numbers()

    cdef const uint8_t* told_known(self) noexcept:
        return (<MethodHandle*> self.c_obj).told_known()

    def set_tensor_input(self, size_t position, int dtype, sizes, order, size_t address):
        """Hand input `position` to ExecuTorch: row of sizes in the given dim order at `address`."""
        cdef Failure failure
        cdef vector[int32_t] c_sizes = sizes
        cdef vector[uint8_t] c_order = order
        cdef vector[int32_t] c_strides = [0] * len(sizes)
        step = 1
        for d in reversed(order):
            c_strides[d] = step
            step *= max(sizes[d], 1)
        if not (<MethodHandle*> self.c_obj).set_input_tensor(
            position, dtype, <int> c_sizes.size(), c_sizes.data(), c_order.data(), c_strides.data(),
            <void*> address, &failure,
        ):
            raise failure_of(f"input {position} of method {self.name!r}", failure)

    def set_number_input(self, size_t position, value):
        """Hand an int, float or bool to ExecuTorch."""
        cdef Failure failure
        cdef bint done
        if isinstance(value, bool):
            done = (<MethodHandle*> self.c_obj).set_input_bool(position, value, &failure)
        elif isinstance(value, int):
            done = (<MethodHandle*> self.c_obj).set_input_int(position, value, &failure)
        else:
            done = (<MethodHandle*> self.c_obj).set_input_double(position, value, &failure)
        if not done:
            raise failure_of(f"input {position} of method {self.name!r}", failure)

    def set_output(self, size_t position, size_t address, size_t nbytes):
        """Give an output that has no planned memory an address with room for `nbytes` bytes."""
        cdef Failure failure
        if not (<MethodHandle*> self.c_obj).set_output_address(position, <void*> address, nbytes, &failure):
            raise failure_of(f"output {position} of method {self.name!r}", failure)

    def execute(self, labels=()):
        """Run the method on what has been set."""
        self.run(labels)

    def number(self, size_t value):
        """Return the Python number in a value, None for anything else."""
        return self.scalar(value) if value < (<MethodHandle*> self.c_obj).values() else None

    cdef object scalar(self, size_t value):
        """Return the Python number in a value, None for anything else."""
        tag = (<MethodHandle*> self.c_obj).tag(value)
        if tag == TAG_INT:
            return (<MethodHandle*> self.c_obj).int_value(value)
        if tag == TAG_DOUBLE:
            return (<MethodHandle*> self.c_obj).double_value(value)
        if tag == TAG_BOOL:
            return bool((<MethodHandle*> self.c_obj).bool_value(value))
        return None


cdef list exported_tables = []   # for ever: memory of them may come back at any time


def connect_device_allocator(int kind, allocator):
    """Let ExecuTorch's own slot for a type of device take memory from an allocator, or from none; False: it cannot."""
    cdef const etarena_device_allocator* table = NULL
    if allocator is not None:
        exported_tables.append(ExportedTable(SerialAllocator(allocator)))
        table = <const etarena_device_allocator*> <size_t> exported_tables[-1].address
    return bridge_allocator(kind, table)


def runtime_allocate(int kind, int index, size_t nbytes, size_t alignment=16):
    """Take memory as the runtime does from its own slot; its address, 0 if refused."""
    cdef void* address
    with nogil:
        address = bridged_allocate(kind, index, nbytes, alignment)
    return <size_t> address


def runtime_free(int kind, int index, size_t address):
    """Give memory of `runtime_allocate` back."""
    with nogil:
        bridged_free(kind, index, <void*> address)


def runtime_copy(int kind, int index, size_t to, size_t source, size_t nbytes, bint to_device):
    """Copy as the runtime does through its own slot; False if refused."""
    cdef bint done
    with nogil:
        done = bridged_copy(kind, index, <void*> to, <const void*> source, nbytes, to_device)
    return done


on_registration(connect_device_allocator)
