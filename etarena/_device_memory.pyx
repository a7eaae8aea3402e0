# distutils: language = c++
"""Memory of a method's values on other devices than the CPU, and the copies that bring values there and back.

The CPU never looks into such memory. The data pointer of its tensors is the address of an `etarena_resource`, which
delegates read by the tensor's device tag. Activations of one device share a region, planned like those in the arena;
results have memory of their own. Where data tells sizes, activations do too: nothing on a device is ever moved.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libcpp.vector cimport vector

from etarena._binding cimport UNKNOWN, BoundShape, ShapeBinder
from etarena._runtime cimport NativeMethod
from etarena.allocator.arena cimport Arena
from etarena.device.abi cimport ETARENA_RESOURCE_VK_IMAGE
from etarena.device.etensor cimport ETensor
from etarena.device.resource cimport Resource

from .allocator import plan_offsets
from .allocator.errors import DeviceError, InputError, InputTypeError
from .allocator.plan import Kind
from .delegates.shared_run import SharedRun
from .device.copies import allow_copy
from .device.device import Device
from .device.device_region import region_of
from .device.dtypes import dtype_name
from .memory_plan import DeviceBytes

STAGE = 1 << 20   # bytes on the CPU at a time, between two devices


cdef class DeviceMemory:
    """Serves one method.

    Parameters
    ----------
    section
        The method's plan section.
    binder
        Its shape binder.
    native
        The method as it was just loaded.
    arena
        Whose methods run in turns and share device memory.

    Raises
    ------
    DeviceError
        If no allocator is registered for a device on which activations lie.
    """

    def __cinit__(self, section, ShapeBinder binder not None, NativeMethod native not None, Arena arena not None):
        cdef int position
        self.section, self.binder, self.native = section, binder, native
        self.held, self.given, self.copies, self.regions, self.inputs_held = {}, {}, [], [], []
        self.members, self.moved, self.shared = {}, set(), SharedRun()
        regions = {}
        for position, value in enumerate(section.values):
            if value.device_type == 0:
                continue
            self.is_used = True
            device = Device(value.device_type, value.device_index)
            regions.setdefault(device, [])
            self.members.setdefault(value.storage, []).append(position)
            if value.storage != position or value.kind == Kind.INPUT:
                continue
            if value.kind == Kind.OUTPUT:
                self.results.push_back(position)
            elif binder.in_stages:
                self.alone.push_back(position)
            else:
                regions[device].append(position)
        # XNNPACK's own know nothing of each other.
        self.is_shared = self.is_used or any(delegate.id != "XnnpackBackend" for delegate in section.delegates)
        for device, owners in regions.items():
            # Inputs and outputs can all be the caller's memory, for which nobody's allocator is needed.
            self.regions.append((region_of(arena, device, later=not owners), owners))
        native.use_transfers(<void*> self, copy_between)

    cdef int tag(self) except -1:
        """Tell the runtime's tensors, once they are attached, on which device they are."""
        for position, value in enumerate(self.section.values):
            if value.device_type != 0:
                self.native.set_device(position, value.device_type, value.device_index)
        return 0

    cdef int plan(self, BoundShape bound) except -1:
        """Find the places of the activations in their regions."""
        plans = []
        for region, owners in self.regions:
            plans.append(
                plan_offsets(
                    [bound.nbytes[owner] for owner in owners],
                    [self.section.values[owner].first for owner in owners],
                    [self.section.values[owner].last for owner in owners],
                    max(region.heap.capabilities.alignment, 1) if owners else 1,
                )
            )
        bound.device_plans = plans
        return 0

    cdef int rebind_all(self, BoundShape bound, vector[char*]& addresses) except -1:
        if bound.device_plans is None:
            self.plan(bound)
        self.held = {}
        for (region, owners), plan in zip(self.regions, bound.device_plans):
            if not owners:
                continue
            block = region.ensure(plan.peak)
            for owner, offset in zip(owners, plan.offsets):
                self.put(owner, block.part(offset, bound.nbytes[owner]), addresses)
        return 0

    cdef int begin_shared(self, BoundShape bound, vector[char*]& addresses) except -1:
        self.copies, self.error = [], None
        self.shared.begin(self.copies)
        if not self.is_used:
            return 0
        for (region, owners), plan in zip(self.regions, bound.device_plans):
            # Another method may have made the region grow, which moved it; a call before this may have failed at it.
            placed = self.held.get(owners[0]) if owners else None
            if owners and (placed is None or (<Resource> placed).owner is not region.ensure(plan.peak)):
                self.rebind(bound, addresses)
        self.appear(bound, addresses)
        for owner in self.moved:
            for position in self.members[owner]:
                self.native.set_address(position, addresses[<int> position])
        self.moved.clear()
        return 0

    cdef int appear(self, BoundShape bound, vector[char*]& addresses) except -1:
        """Give memory to what has just become known, or larger than it was; a later rebind tells the tensors."""
        for owner in (*list(self.results), *list(self.alone)):
            if bound.ready[<int> owner] != UNKNOWN:
                if owner not in self.held or self.held[owner].nbytes < bound.nbytes[<int> owner]:
                    self.put(owner, self.allocate(owner, bound), addresses)
        return 0

    cdef object allocate(self, int owner, BoundShape bound):
        """Memory for one value: the caller's, or its own."""
        if owner in self.given:
            self.check_given_shape(owner, bound)
            return (<ETensor> self.given[owner]).source
        return self.heap_of(self.device_of(owner)).allocate(bound.nbytes[owner])

    cdef int put(self, int owner, object resource, vector[char*]& addresses) except -1:
        """Let a buffer, with the values that share it, lie in a resource from now on; `begin` tells the tensors."""
        self.held[owner] = resource
        self.moved.add(owner)
        for position in self.members[owner]:
            addresses[<int> position] = <char*> &(<Resource> resource).c_obj
        return 0

    cdef object result(self, int position, BoundShape bound):
        """An output as a tensor on its device."""
        cdef int owner = self.binder.storage[position]
        if owner in self.given:
            return self.given[owner]
        value = self.section.values[position]
        return ETensor.from_resource(
            self.held[owner], value.dtype, self.shape_of(position, bound),
            Device(value.device_type, value.device_index), dim_order=value.dim_order,
        )

    def shape_of(self, int position, BoundShape bound):
        """Sizes of a value."""
        cdef int d, start = self.binder.start[position]
        return [bound.sizes[start + d] for d in range(self.binder.rank[position])]

    def give(self, int output, int position, tensor):
        """Take a tensor of the caller to write an output into.

        Raises
        ------
        InputTypeError, InputError, DeviceError
            If it cannot be that output.
        """
        value = self.section.values[position]
        device = Device(value.device_type, value.device_index)
        if not isinstance(tensor, ETensor):
            raise InputTypeError(
                f"output {output} is on {device}: it needs an etarena.ETensor there or None, got "
                f"{type(tensor).__name__}"
            )
        if tensor.device != device:
            raise DeviceError(f"the tensor for output {output} is on {tensor.device}, the output on {device}")
        if (<ETensor> tensor).code != value.dtype:
            raise InputTypeError(
                f"the tensor for output {output} has dtype {tensor.dtype}, the output {dtype_name(value.dtype)}"
            )
        if tensor.readonly:
            raise InputError(f"the tensor for output {output} is read-only")
        owner = self.binder.storage[position]
        others = [given for place, given in self.given.items() if place != owner]
        if any(share_memory((<ETensor> tensor).source, (<ETensor> given).source) for given in others):
            raise InputError(f"the tensor for output {output} shares memory with one for another output")
        if self.given.setdefault(owner, tensor) is not tensor:
            raise InputError(f"output {output} is the same memory as another output: give the same tensor for both")

    def check_given_shape(self, int position, BoundShape bound):
        """Refuse a tensor that is not of the output's shape, dense in its dim order."""
        tensor = self.given[position]
        value, shape = self.section.values[position], self.shape_of(position, bound)
        if list(tensor.shape) != shape:
            raise InputError(f"the tensor for {value.name!r} has shape {list(tensor.shape)}, the output has {shape}")
        if not (<ETensor> tensor).lies_dense(self.binder.dim_orders.data() + self.binder.start[position]):
            raise InputError(f"the tensor for {value.name!r} is not dense in the output's dim order {value.dim_order}")
        if any(share_memory((<ETensor> tensor).source, other) for other in self.inputs_held):
            raise InputError(f"the tensor for {value.name!r} shares memory with an input")

    cdef int forget_shared(self) except -1:
        self.shared.end()
        if self.is_used:
            self.given, self.inputs_held = {}, []
            for owner in (*list(self.results), *list(self.alone)):
                self.held.pop(owner, None)
                self.moved.discard(owner)
        return 0

    def explain(self, error):
        """Raise what a copy raised in the place of the failure that it became; return if there is nothing to say."""
        cause, self.error = self.error, None
        if cause is not None:
            raise cause from error

    def figures(self, BoundShape bound):
        """What each device held for a run, as `RunStats` has it."""
        found = []
        for (region, owners), plan in zip(self.regions, bound.device_plans or ()):
            found.append(DeviceBytes(str(region.device), plan.peak, plan.lower_bound))
        return tuple(found)

    def trim(self):
        """Give the regions' memory back."""
        self.held = {}
        for region, _ in self.regions:
            region.trim()

    def copy(self, int source, size_t source_data, int target, size_t target_data, size_t nbytes):
        """Copy between two values of the method and write it down.

        Raises
        ------
        CopyRefusedError
            Inside ``zero_copy()``.
        DeviceError
            If a device's allocator refuses.
        """
        here, there = self.device_of(source), self.device_of(target)
        name = self.section.values[source].name if source >= 0 else "a constant"
        self.copies.append(allow_copy(f"value {name!r} goes from {here} to {there}", nbytes))
        if nbytes == 0:
            return
        if here.is_cpu:
            given = bytes_at(source_data, nbytes, PyBUF_READ)
            self.heap_of(there).write(self.resource_at(target, target_data), 0, given)
        elif there.is_cpu:
            wanted = bytes_at(target_data, nbytes, PyBUF_WRITE)
            self.heap_of(here).read(wanted, self.resource_at(source, source_data), 0)
        else:
            part = memoryview(bytearray(min(nbytes, STAGE)))
            for offset in range(0, nbytes, STAGE):
                step = part[: min(STAGE, nbytes - offset)]
                self.heap_of(here).read(step, self.resource_at(source, source_data), offset)
                self.heap_of(there).write(self.resource_at(target, target_data), offset, step)

    def device_of(self, int position):
        """Device of a value; constants, which no section names, are on the CPU."""
        if position < 0:
            return Device("cpu")
        value = self.section.values[position]
        return Device(value.device_type, value.device_index)

    def heap_of(self, device):
        """Where the memory of a device comes from."""
        for region, _ in self.regions:
            if region.device == device:
                return region.heap
        raise DeviceError(f"the method uses no memory of {device}")

    def resource_at(self, int position, size_t address):
        """The resource behind the data pointer of a value."""
        owner = self.binder.storage[position]
        candidates = [self.held.get(owner), *self.inputs_held]
        for candidate in candidates:
            if candidate is not None and <size_t> &(<Resource> candidate).c_obj == address:
                return candidate
        raise DeviceError(f"value {self.section.values[position].name!r} has no memory on its device")


cdef bint share_memory(Resource one, Resource other) noexcept:
    """Whether two resources are of one handle and overlap there; images, which need not tell their bytes, always do."""
    if one.c_obj.kind != other.c_obj.kind or one.c_obj.handle != other.c_obj.handle:
        return False
    if one.c_obj.kind == ETARENA_RESOURCE_VK_IMAGE:
        return True
    return (one.c_obj.offset < other.c_obj.offset + other.c_obj.nbytes and
            other.c_obj.offset < one.c_obj.offset + one.c_obj.nbytes)


cdef object bytes_at(size_t address, size_t nbytes, int flags):
    return PyMemoryView_FromMemory(<char*> address, <Py_ssize_t> nbytes, flags)


cdef int copy_between(
    void* owner, const void* source, void* source_data, const void* target, void* target_data, size_t nbytes
) noexcept with gil:
    """What the runtime calls; an exception waits for `DeviceMemory.explain`."""
    cdef DeviceMemory memory = <DeviceMemory> owner
    try:
        memory.copy(
            memory.native.slot_of(source), <size_t> source_data, memory.native.slot_of(target), <size_t> target_data,
            nbytes,
        )
        return 0
    except BaseException as raised:
        memory.error = raised
        return 1
