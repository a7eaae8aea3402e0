# distutils: language = c++
"""The method's outputs: memory for them before a run, results from them after it.

An output gets a block of the arena's heap, which the result tensors own together, or the caller's own tensor where the
method can write into it directly. Memory that belongs to somebody else (an input, a constant, a state) is never handed
out: such outputs are copied, and the copy is counted.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from etarena._binding cimport READY, UNKNOWN, BoundShape, ShapeBinder
from etarena._device_memory cimport DeviceMemory
from etarena._runtime cimport NativeMethod, TensorView
from etarena._tensors cimport HeapShare, drop_share, etensor_view, memory_range, new_share, overlaps, share_tensor
from etarena.allocator.arena cimport Arena
from etarena.device.etensor cimport ETensor

from .allocator.errors import InputError, InputTypeError, RuntimeFailure
from .allocator.plan import Kind, Scalar
from .device.copies import allow_copy
from .device.dtypes import dtype_name

cdef extern from *:    # Cython's: what is rare lies behind the rest of a function
    bint unlikely(bint condition) noexcept

cdef enum:
    OUTPUT = 2     # Kind.OUTPUT


cdef class OutputWriter:
    """Serves one call after another.

    Parameters
    ----------
    section
        The method's plan section.
    binder
        Its shape binder.
    arena
        Whose heap holds the results.
    devices
        Who holds those on other devices than the CPU.
    """

    def __cinit__(self, section, ShapeBinder binder not None, Arena arena not None, DeviceMemory devices not None):
        self.section, self.binder, self.arena, self.devices = section, binder, arena, devices
        for position, value in enumerate(section.values):
            if value.kind != Kind.OUTPUT or value.device_type != 0:
                continue
            if value.storage == position:
                self.owners.push_back(position)
            else:
                self.members.push_back(position)
        self.shares.assign(self.owners.size(), <HeapShare*> NULL)
        self.places.assign(self.owners.size(), <void*> NULL)
        self.is_plain = self.members.size() == 0 and not binder.in_stages
        self.given = None

    cdef int check(self, object outputs) except -1:
        """Remember the caller's tensors, one entry an output of the program."""
        self.given, self.is_usual = None, self.is_plain
        if outputs is None:
            return 0
        visible = sum(not entry.hidden for entry in self.section.outputs)
        if not isinstance(outputs, (list, tuple)) or len(outputs) != visible:
            raise InputError(f"outputs must be a list of {visible} tensors or Nones, as many as the method returns")
        remaining = iter(outputs)
        given = [None if entry.hidden else next(remaining) for entry in self.section.outputs]
        for position, tensor in enumerate(given):
            if type(tensor) is ETensor:
                if tensor.readonly:
                    raise InputError(f"the ETensor for output {position} is read-only")
                slot = self.section.outputs[position].value
                if slot >= 0 and self.section.values[slot].device_type == 0:
                    given[position] = tensor = etensor_view(tensor, f"output {position}")
            if tensor is not None:
                self.check_type(position, tensor)
        self.given, self.is_usual = given, False
        return 0

    def check_type(self, int position, tensor):
        """Refuse a tensor for an output that cannot hold it whatever the shapes are."""
        import torch

        entry = self.section.outputs[position]
        if entry.value < 0:
            raise InputTypeError(f"output {position} is a number: pass None for it")
        if self.section.values[entry.value].device_type != 0:
            return self.devices.give(position, entry.value, tensor)
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            kind = type(tensor).__name__
            raise InputTypeError(f"output {position} needs a dense CPU torch.Tensor or None, got {kind}")
        if tensor.requires_grad:
            raise InputError(f"the tensor for output {position} requires grad, which writing into it would break")
        expected = dtype_name(self.section.values[entry.value].dtype)
        if str(tensor.dtype) != f"torch.{expected}":
            raise InputTypeError(f"the tensor for output {position} has dtype {tensor.dtype}, the output {expected}")

    cdef int point(self, BoundShape bound, NativeMethod native, list inputs) except -1:
        """Give every output's owner memory: the caller's where it can be written directly, else a fresh block.

        Owners whose sizes are not known yet get theirs when they `appear`.
        """
        cdef Arena arena = self.arena
        cdef HeapShare* share
        cdef int owner
        cdef size_t i
        self.bound = bound
        if unlikely(not self.is_usual):
            return self.point_one_by_one(bound, native, inputs)
        for i in range(self.owners.size()):
            owner = self.owners[i]
            share = new_share(arena, <size_t> bound.nbytes[owner])
            self.shares[i], self.places[i] = share, share.address
            native.set_address(owner, share.address)
        return 0

    cdef int point_one_by_one(self, BoundShape bound, NativeMethod native, list inputs) except -1:
        """The same where the caller gave tensors, sizes are not known yet, or further values use the memory."""
        cdef int i
        self.inputs, self.seen = inputs, []
        direct = self.direct_owners(None) if self.given is not None else None
        for i in range(<int> self.owners.size()):
            if bound.ready[self.owners[i]] == UNKNOWN:
                self.places[i] = self.arena.base_address
            else:
                self.serve(i, direct, native)
        return 0

    cdef int appear(self, BoundShape bound, NativeMethod native) except -1:
        """Give memory to the outputs whose sizes data has just told."""
        cdef int i, k
        self.bound = bound
        if bound.appeared.size() == 0:
            return 0
        direct = self.direct_owners(list(bound.appeared)) if self.given is not None else None
        for k in range(<int> bound.appeared.size()):
            for i in range(<int> self.owners.size()):
                if self.owners[i] == bound.appeared[k]:
                    self.serve(i, direct, native)
        return 0

    cdef int serve(self, int which, object direct, NativeMethod native) except -1:
        """Give one owner memory."""
        cdef int owner = self.owners[which]
        cdef void* address
        if self.shares[which] != NULL:   # a loop told another size in its last round
            drop_share(self.shares[which])
            self.shares[which] = NULL
        if direct is not None and owner in direct:
            address = <void*> <size_t> direct[owner].data_ptr()
        else:
            self.shares[which] = new_share(self.arena, <size_t> self.bound.nbytes[owner])
            address = self.shares[which].address
        self.places[which] = self.arena.base_address if address == NULL else address
        self.place(native, owner, self.places[which])
        return 0

    cdef void* address_of(self, int owner) noexcept:
        """Where an output's owner lies; any valid address before it has memory."""
        cdef int i
        for i in range(<int> self.owners.size()):
            if self.owners[i] == owner:
                return self.places[i]
        return self.arena.base_address

    cdef void place(self, NativeMethod native, int owner, void* address) noexcept:
        """Point an output's owner and the values that use its memory, such as the results of branches, at a block."""
        cdef int i
        native.set_address(owner, address)
        for i in range(<int> self.members.size()):
            if self.binder.storage[self.members[i]] == owner:
                native.set_address(self.members[i], address)

    def direct_owners(self, owners):
        """Map owners (those given, or all whose sizes are known) to the caller's tensors that can be their memory."""
        direct = {}
        for position, tensor in enumerate(self.given):
            if tensor is None or type(tensor) is ETensor:
                continue
            slot = self.section.outputs[position].value
            owner = self.binder.storage[slot]
            if self.bound.ready[slot] != READY or (owners is not None and owner not in owners):
                continue
            self.check_shape(position, tensor)
            if overlaps(tensor, self.seen):
                raise InputError(f"the tensor for output {position} shares memory with one for another output")
            self.seen.append(tensor)
            if self.writes_directly(position, tensor, self.inputs):
                direct.setdefault(owner, tensor)
        return direct

    def check_shape(self, int position, tensor):
        """Refuse a tensor for an output of another shape."""
        cdef int slot = self.section.outputs[position].value
        cdef int start = self.binder.start[slot]
        shape = [self.bound.sizes[start + d] for d in range(self.binder.rank[slot])]
        if list(tensor.shape) != shape:
            raise InputError(f"the tensor for output {position} has shape {list(tensor.shape)}, the output has {shape}")
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
            raise InputError(f"the tensor for output {position} is expanded: several of its items are one in memory")
        begin, end = memory_range(tensor)
        if end - begin > tensor.untyped_storage().nbytes():
            raise InputError(f"the tensor for output {position} is larger than its storage")

    def writes_directly(self, int position, tensor, inputs):
        """Whether the output's own memory can be the caller's tensor: same layout, and no input lies there."""
        cdef int slot = self.section.outputs[position].value
        cdef int owner = self.binder.storage[slot]
        cdef int start = self.binder.start[slot]
        order = [self.binder.dim_orders[start + d] for d in range(self.binder.rank[slot])]
        if self.binder.kind[owner] != OUTPUT or not tensor.permute(order).is_contiguous():
            return False
        if tensor.is_neg() or tensor.is_conj():
            return False
        if tensor.nbytes != self.bound.nbytes[owner] or tensor.data_ptr() % tensor.element_size():
            return False
        return not overlaps(tensor, inputs)

    cdef list collect(self, NativeMethod native, list copies):
        """Turn what the program returned into results."""
        cdef int position = 0
        cdef list results = []
        for entry in self.section.outputs:
            if not entry.hidden:
                if entry.scalar == Scalar.TENSOR:
                    results.append(self.tensor_result(native, position, entry.index, copies))
                else:
                    results.append(native.scalar(entry.index))
            position += 1
        return results

    cdef object tensor_result(self, NativeMethod native, int position, size_t value, list copies):
        """Hand out one output: its own block, the caller's tensor, or a copy of memory that is not the caller's."""
        cdef TensorView view
        cdef HeapShare* share
        cdef int i
        native.view(value, &view)
        self.check_result(position, &view)
        if view.device_type != 0:
            return self.devices.result(self.section.outputs[position].value, self.bound)
        if self.given is not None and self.given[position] is not None:
            return self.fill_given(position, <size_t> view.data, view.nbytes, copies)
        for i in range(<int> self.shares.size()):
            share = self.shares[i]
            if share != NULL and holds(share, view.data):
                return share_tensor(share, view.data, view.dtype, view.rank, view.sizes, view.strides)
        # It is an input, a constant, a state or another output's tensor of the caller: results never alias those.
        copies.append(allow_copy(f"output {position} is memory that stays with its owner", view.nbytes))
        share = new_share(self.arena, view.nbytes)
        try:
            memcpy(share.address, view.data, view.nbytes)
            return share_tensor(share, share.address, view.dtype, view.rank, view.sizes, view.strides)
        finally:
            drop_share(share)

    cdef int check_result(self, int position, TensorView* view) except -1:
        """The result must have the shape that was planned: a kernel that sized it otherwise computed something else.

        Kernels may size empty results as they like (ExecuTorch's cat of empty tensors gives [0, 0]); those get the
        planned shape.
        """
        cdef int slot = self.section.outputs[position].value
        cdef const int32_t* planned = self.bound.sizes.data() + self.binder.start[slot]
        cdef int d
        cdef bint same = view.rank == self.binder.rank[slot], empty = False
        for d in range(view.rank if same else 0):
            same = same and view.sizes[d] == planned[d]
            empty = empty or planned[d] == 0
        if same:
            return 0
        if empty and view.nbytes == 0:
            view.sizes = planned
            return 0
        shape = [view.sizes[d] for d in range(view.rank)]
        expected = [planned[d] for d in range(self.binder.rank[slot])]
        raise RuntimeFailure(
            f"output {position} of method {self.section.name!r} came out with shape {shape} where the model says "
            f"{expected}: a kernel or delegate disagrees with PyTorch about this operator"
        )

    def fill_given(self, int position, size_t address, size_t nbytes, copies):
        """Make sure that the caller's tensor holds the output and return it."""
        cdef int slot = self.section.outputs[position].value
        cdef int start = self.binder.start[slot]
        tensor = self.given[position]
        self.check_shape(position, tensor)   # the size of this one may have been told last
        import torch

        if nbytes == 0 or tensor.data_ptr() == address:
            torch.autograd.graph.increment_version(tensor)   # torch must learn that its contents changed
            return tensor

        copies.append(allow_copy(f"output {position} goes into a tensor it could not be written to", nbytes))
        order = [self.binder.dim_orders[start + d] for d in range(self.binder.rank[slot])]
        permuted = tensor.detach().permute(order)
        dense = torch.empty(permuted.shape, dtype=tensor.dtype)
        memcpy(<void*> <size_t> dense.data_ptr(), <void*> address, nbytes)
        permuted.copy_(dense)
        return tensor

    cdef void drop(self) noexcept:
        """Let go of the output blocks of the call; result tensors keep theirs."""
        cdef int i
        for i in range(<int> self.shares.size()):
            if self.shares[i] != NULL:
                drop_share(self.shares[i])
                self.shares[i] = NULL
        self.given = self.bound = self.inputs = self.seen = None


cdef bint holds(const HeapShare* share, const void* address) noexcept:
    """Whether an address is inside a block; an empty block holds its own address."""
    begin = <const char*> share.address
    return address == begin or (begin < <const char*> address < begin + share.nbytes)
