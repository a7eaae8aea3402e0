# distutils: language = c++
"""The caller's inputs, checked and read in place.

A tensor is copied only where the runtime could not read it: another layout than the model's, an address that is no
multiple of the item's size, or an end at the edge of mapped memory when delegates read past it. Every copy is counted.
"""

from libc.stdint cimport int32_t, uint8_t
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._tensors cimport (
    HeapShare,
    as_torch_tensor,
    drop_share,
    has_layout,
    new_share,
    overlaps,
    read_tensor,
    readable_behind,
    share_tensor,
)
from etarena.allocator.arena cimport Arena
from etarena.device.dlpack cimport DLTensor
from etarena.device.etensor cimport ETensor
from etarena.device.scalar_types cimport dtype_code, item_bytes
from etarena.device.tensor_core cimport pin

from .allocator.errors import DeviceError, InputError, InputTypeError
from .allocator.plan import Scalar
from .device.copies import allow_copy
from .device.device import Device
from .device.dtypes import dtype_name

# XNNPACK may read past the end of a tensor: XNN_EXTRA_BYTES in its xnnpack.h, at most 128 and 16 on x86 and Arm.
cdef enum:
    READ_AHEAD = 64


def constant_of(entry):
    """Return the only value that an input takes which was a constant at export."""
    if entry.scalar == Scalar.INT:
        return entry.int_value
    if entry.scalar == Scalar.BOOL:
        return bool(entry.int_value)
    if entry.scalar == Scalar.FLOAT:
        return entry.float_value
    return entry.string_value if entry.scalar == Scalar.STRING else None


cdef class InputReader:
    """Reads the inputs of one call after another.

    Parameters
    ----------
    section
        The method's plan section.
    binder
        Its shape binder, for the layout of keys.
    """

    def __cinit__(self, section, ShapeBinder binder not None):
        self.section, self.binder = section, binder
        self.read_past_end = len(section.delegates) > 0
        for entry in section.inputs:
            self.devices.push_back(section.values[entry.value].device_type if entry.value >= 0 else 0)
            self.has_devices = self.has_devices or self.devices.back() != 0
        self.mutates = any(entry.mutated for entry in section.inputs)
        self.views.resize(len(section.inputs))
        self.key.resize(max(binder.key_length, 1))
        self.held, self.unreadable, self.write_backs, self.copies, self.pins = [], [], [], [], []
        self.on_device = []

    cdef void forget(self) noexcept:
        """Let go of the caller's tensors; most lists are as empty as they were."""
        self.held = []
        if self.pins:
            self.pins = []
        if self.copies:
            self.copies = []
        if self.has_devices:
            self.on_device = []
        if self.has_unreadable:
            self.unreadable, self.has_unreadable = [], False
        if self.mutates:
            self.write_backs = []

    cdef void* address(self, int position) noexcept:
        return <char*> self.views[position].data + self.views[position].byte_offset

    cdef int read(self, object inputs) except -1:
        """Check all inputs and fill `views` and `key`."""
        entries = self.section.inputs
        if not isinstance(inputs, (list, tuple)):
            raise InputTypeError(f"inputs must be a list or tuple, got {type(inputs).__name__}")
        if len(inputs) != len(entries):
            names = ", ".join(entry.name for entry in entries)
            raise InputError(f"method {self.section.name!r} takes {len(entries)} inputs ({names}), got {len(inputs)}")
        self.position = 0
        for value in inputs:
            entry = entries[self.position]
            if self.binder.input_values[self.position] >= 0:
                self.read_one(entry, value)
            else:
                self.read_number(entry, value)
            self.position += 1
        if self.mutates:
            self.refuse_shared_memory()
        return 0

    cdef int refuse_shared_memory(self) except -1:
        """An input that the method writes must not lie in the memory of another: the order of writes would show."""
        tensors = {}
        for position, entry in enumerate(self.section.inputs):
            if entry.value >= 0:
                tensors[position] = self.held[len(tensors)]
        for position, tensor in tensors.items():
            entry = self.section.inputs[position]
            if entry.mutated and overlaps(tensor, [other for place, other in tensors.items() if place != position]):
                raise InputError(f"input {entry.name!r}, which the method writes, shares memory with another input")
        return 0

    cdef int read_one(self, object entry, object value) except -1:
        cdef DLTensor* view = &self.views[self.position]
        cdef int start = self.binder.key_start[self.position]
        cdef int slot = self.binder.input_values[self.position]
        cdef int d
        if self.devices[self.position] != 0:
            return self.read_on_device(entry, value)
        if type(value) is ETensor and not entry.mutated and self.read_etensor(<ETensor> value):
            return 0
        made = len(self.copies)
        tensor = as_torch_tensor(value, entry.name, self.copies)
        if entry.mutated:
            refuse_unwritable(entry, value, tensor, len(self.copies) > made)
        read_tensor(tensor, entry.name, view)
        if dtype_code(view.dtype) != self.binder.dtypes[slot]:
            expected = dtype_name(self.binder.dtypes[slot])
            raise InputTypeError(f"input {entry.name!r} has dtype {tensor.dtype}, expected {expected}")
        if view.ndim != self.binder.rank[slot]:
            raise InputError(
                f"input {entry.name!r} has shape {tuple(tensor.shape)} of rank {view.ndim}, expected rank "
                f"{self.binder.rank[slot]}"
            )
        for d in range(view.ndim):
            self.key[start + d] = view.shape[d]
        self.held.append(tensor)
        cause = self.copy_cause(entry, tensor)
        if cause is not None:
            self.unreadable.append((self.position, tensor, cause))
            self.has_unreadable = True
        return 0

    cdef int read_on_device(self, object entry, object value) except -1:
        """Take a tensor on a device, which the CPU does not look into: its resource is what the program gets."""
        cdef int slot = self.binder.input_values[self.position]
        cdef int start = self.binder.key_start[self.position]
        cdef ETensor tensor
        cdef int d
        described = self.section.values[slot]
        device = Device(described.device_type, described.device_index)
        if type(value) is not ETensor:
            raise InputTypeError(
                f"input {entry.name!r} is on {device}: pass an etarena.ETensor there, got {type(value).__name__}"
            )
        tensor = value
        tensor.require_open()
        if tensor.device != device:
            raise DeviceError(
                f"input {entry.name!r} is on {tensor.device}, the model wants it on {device}: call .to({str(device)!r})"
            )
        if tensor.code != described.dtype:
            raise InputTypeError(
                f"input {entry.name!r} has dtype {tensor.dtype}, expected {dtype_name(described.dtype)}"
            )
        if tensor.rank != self.binder.rank[slot]:
            raise InputError(
                f"input {entry.name!r} has shape {tensor.shape} of rank {tensor.rank}, expected rank "
                f"{self.binder.rank[slot]}"
            )
        if not tensor.lies_dense(self.binder.dim_orders.data() + self.binder.start[slot]):
            raise InputError(
                f"input {entry.name!r} has strides {tensor.strides} on {device}; the model wants it dense in the dim "
                f"order {described.dim_order}"
            )
        for d in range(tensor.rank):
            self.key[start + d] = tensor.sizes[d]
        self.views[self.position].data, self.views[self.position].byte_offset = &tensor.source.c_obj, 0
        self.held.append(tensor)
        self.pins.append(pin(tensor))
        self.on_device.append(tensor.source)
        return 0

    cdef bint read_etensor(self, ETensor value) except -1:
        """Read an ETensor that is just as the model wants it; False if it is not, and the slower way tells why."""
        cdef int slot = self.binder.input_values[self.position]
        cdef int start = self.binder.key_start[self.position]
        cdef const uint8_t* order = self.binder.dim_orders.data() + self.binder.start[slot]
        cdef int item = item_bytes(value.code)
        cdef size_t address = <size_t> value.data
        cdef int d
        if value.is_closed or value.place.type != 0 or value.code != self.binder.dtypes[slot]:
            return False
        if value.rank != self.binder.rank[slot] or address % item or not value.lies_dense(order):
            return False
        if self.read_past_end and not readable_behind(<void*> (address + <size_t> value.span()), READ_AHEAD):
            return False
        for d in range(value.rank):
            self.key[start + d] = value.sizes[d]
        self.views[self.position].data, self.views[self.position].byte_offset = value.data, 0
        self.held.append(value)
        self.pins.append(pin(value))
        return True

    cdef int copy_all(self, BoundShape bound, Arena arena) except -1:
        for position, tensor, cause in self.unreadable:
            self.replace_by_dense(position, tensor, cause, bound, arena)
        self.unreadable, self.has_unreadable = [], False
        return 0

    cdef object copy_cause(self, object entry, object tensor):
        """Say why the tensor cannot be read in place; None when it can."""
        cdef DLTensor* view = &self.views[self.position]
        cdef int slot = self.binder.input_values[self.position]
        cdef const uint8_t* order = self.binder.dim_orders.data() + self.binder.start[slot]
        cdef size_t item = view.dtype.bits // 8
        cdef size_t address = <size_t> self.address(self.position)
        if not has_layout(view, order):
            dims = [order[d] for d in range(view.ndim)]
            return f"input {entry.name!r} has strides {tensor.stride()}, not the dim order {dims} of the model"
        if address % item:
            return f"input {entry.name!r} is not aligned to its items of {item} bytes"
        if self.read_past_end and not readable_behind(<void*> (address + <size_t> tensor.nbytes), READ_AHEAD):
            return f"input {entry.name!r} ends at the edge of mapped memory, which a delegate reads past"
        return None

    cdef int replace_by_dense(
        self, int position, object tensor, str cause, BoundShape bound, Arena arena
    ) except -1:
        """Read a copy in the model's dim order instead; heap blocks of the arena are readable past their end."""
        cdef int slot = self.binder.input_values[position]
        cdef int start = self.binder.start[slot], rank = self.binder.rank[slot]
        cdef vector[int32_t] strides
        cdef int32_t step = 1
        cdef int i
        cdef HeapShare* share
        entry = self.section.inputs[position]
        self.copies.append(allow_copy(cause, tensor.nbytes))
        strides.resize(max(rank, 1))
        for i in range(rank - 1, -1, -1):
            strides[self.binder.dim_orders[start + i]] = step
            step *= max(bound.sizes[start + self.binder.dim_orders[start + i]], 1)
        share = new_share(arena, <size_t> bound.nbytes[slot])
        try:
            dense = share_tensor(
                share, share.address, self.binder.dtypes[slot], rank, bound.sizes.data() + start, strides.data()
            )
        finally:
            drop_share(share)   # the tensor holds it now
        dense.copy_(tensor.detach())
        self.held.append(dense)
        read_tensor(dense, entry.name, &self.views[position])
        if entry.mutated:
            self.write_backs.append((tensor, dense, entry.name))
        return 0

    cdef int read_number(self, object entry, object value) except -1:
        """Check an input that is no tensor."""
        if entry.symbol < 0:
            expected = constant_of(entry)
            if type(value) is not type(expected) or value != expected:
                raise InputError(
                    f"input {entry.name!r} is {value!r}, but the model was exported with {expected!r}, "
                    "which became part of it"
                )
            return 0
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InputTypeError(f"input {entry.name!r} must be an int, got {type(value).__name__}")
        number = value.__index__()
        if not -(2**63) <= number < 2**63:
            raise InputError(f"input {entry.name!r} is {number}, which does not fit 64 bits")
        self.key[self.binder.key_start[self.position]] = number
        return 0

    cdef int count_writes(self) except -1:
        """Raise torch's version counters of the inputs that the method wrote, as in-place operators do."""
        import torch

        position = 0
        for entry in self.section.inputs:
            if entry.value >= 0:
                if entry.mutated:
                    torch.autograd.graph.increment_version(self.held[position])
                position += 1
        return 0

    cdef int announce_all(self) except -1:
        for _, dense, name in self.write_backs:
            cause = f"the method's writes to input {name!r} go back into its own layout"
            self.copies.append(allow_copy(cause, dense.nbytes))
        return 0

    cdef int write_back_all(self) except -1:
        self.count_writes()
        for tensor, dense, _ in self.write_backs:
            tensor.detach().copy_(dense)
        return 0


cdef int refuse_unwritable(object entry, object value, object tensor, bint copied) except -1:
    """Refuse memory that the method must write into but cannot."""
    reason = None
    if copied:
        reason = "cannot be written as it lies in memory"
    elif tensor.requires_grad:
        reason = "requires grad"
    elif any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
        reason = "is expanded: several of its items are one in memory"
    elif type(value) is ETensor:
        reason = "is read-only" if value.readonly else None
    elif value is not tensor:
        interface = getattr(value, "__array_interface__", None)
        if interface is not None and interface["data"][1]:
            reason = "is read-only"
        elif interface is None and not hasattr(value, "__dlpack__") and memoryview(value).readonly:
            reason = "is read-only"
    if reason is not None:
        raise InputError(f"input {entry.name!r} {reason}, but the method writes into it: pass a copy")
    return 0
