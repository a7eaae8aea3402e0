# distutils: language = c++
"""A method planned at run time: binding, cache of plans, execution.

A call reads the caller's tensors in place, finds or makes the plan of their shapes, points the native tensors at their
memory and runs. With the shapes of the call before, only the pointers of inputs and outputs change.
"""

from functools import partial

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder, now_ns
from etarena._device_memory cimport DeviceMemory
from etarena._inputs cimport InputReader
from etarena._outputs cimport OutputWriter
from etarena._plan_cache cimport PlanCache, improved
from etarena._runtime cimport NativeMethod
from etarena._scratch cimport DelegateScratch
from etarena._staged_run cimport StagedRun
from etarena._states cimport StateKeeper

from ._described_plan import described_plan
from .allocator import plan as plan_section
from .allocator.errors import InputError, InputTypeError, PlanError
from .delegates.python_table import hold_leaked
from .delegates.xnnpack import scratch
from .background import RunQueue
from .memory_plan import RunStats
from .scratch_users import scratch_users
from .shapes import checked_shape, listed_shapes
from .state import States

Kind = plan_section.Kind


cdef class PlannedMethod:
    """A method of a file made by `etarena.export`; got from `Program.method`.

    Calls from several threads queue: methods use the arena's activation region in turns.

    Attributes
    ----------
    name
        Name of the method.
    section
        The decoded plan section: symbols, values, inputs, outputs.
    arena
        The arena that holds activations and results.
    """

    def __cinit__(self, program, str name not None):
        self.program, self.name, self.arena = program, name, program.arena
        self.cache = PlanCache(program.plan_cache)
        self.anytime = program.anytime
        self.last_copies = []
        self.background = RunQueue()
        self.load()

    cdef int load(self) except -1:
        """Load the native method and check that it is the one its plan section describes."""
        cdef ShapeBinder binder
        cdef NativeMethod native
        scratch.begin_capture()
        try:
            with self.program.loading(self.name):
                native = NativeMethod(self.program.native, self.name, [])
        finally:
            runtimes = scratch.end_capture()
        if native.payload is None:
            raise PlanError(f"method {self.name!r} carries no plan section")
        section = plan_section.decode(native.payload)
        if section.name != self.name:
            raise PlanError(f"name: the plan section is of method {section.name!r}, not of {self.name!r}")
        if [entry.index for entry in section.inputs] != native.inputs:
            raise PlanError("inputs: the program has other inputs than the plan section")
        if [entry.index for entry in section.outputs] != native.outputs:
            raise PlanError("outputs: the program has other outputs than the plan section")
        binder = ShapeBinder(section)
        devices = DeviceMemory(section, binder, native, self.arena)
        binder.use_scratch(DelegateScratch(section, native, scratch_users(section, native, runtimes, self.arena)))
        # Whatever can fail for a reason outside the file has been done: until here the method is what it was.
        self.native, self.section, self.binder, self.labels = native, section, binder, tuple(section.labels)
        self.devices, self.reader = devices, InputReader(section, binder)
        self.writer = OutputWriter(section, binder, self.arena, devices)
        return self.attach()

    cdef int attach(self) except -1:
        """Take hold of the native tensors and of the memory that does not change from run to run."""
        cdef vector[int32_t] indices, ranks, dtypes
        cdef int position
        section = self.section
        for value in section.values:
            indices.push_back(value.index)
            ranks.push_back(len(value.sizes))
            dtypes.push_back(value.dtype)
            found = self.native.tensor(value.index)
            if found is not None and found[2] != tuple(value.dim_order):
                raise PlanError(f"values[{value.index}].dim_order is {value.dim_order}, the program has {found[2]}")
        self.native.attach(indices.data(), ranks.data(), dtypes.data(), <int> indices.size())
        self.devices.tag()
        self._check_nothing_is_missing()
        self.addresses.assign(len(section.values), <char*> NULL)
        self.fixed.clear()
        for position, value in enumerate(section.values):
            if value.storage == position and value.kind == Kind.CONSTANT:
                found = self.native.tensor(value.index)
                if found[4] != 0:
                    self.fixed.push_back(Fixed(position, <char*> <size_t> found[4], found[5]))
                elif found[5] > 0:
                    raise PlanError(f"values[{position}].kind: {value.name!r} is no constant, the file has no data")
        self.held_states = self.program.states_of(section)
        self.fixed_state_bytes = 0
        for state, held in zip(section.states, self.held_states.values()):
            if held.dim is None:
                self.fixed.push_back(Fixed(state.value, <char*> <size_t> held.address, held.nbytes))
                self.fixed_state_bytes += held.nbytes
        growing = [None if held.dim is None else held.memory for held in self.held_states.values()]
        self.keeper = StateKeeper(section, self.binder, growing)
        self.state_bytes = self.fixed_state_bytes + self.keeper.nbytes()
        self.native.mark_inputs_set()
        self.stages = None
        if self.binder.in_stages:
            self.stages = StagedRun(
                self.binder, self.native, self.writer, self.arena, self.devices, self.labels, self.cache.limit // 2
            )
        self.keeps_plans = self.cache.limit > 0 or self.anytime or self.stages is not None
        self.current, self.failed = None, False
        return 0

    def _check_nothing_is_missing(self):
        """Every tensor that the file gives no memory must be one that the plan section gives some."""
        known = {value.index for value in self.section.values}
        for index in range(self.native.values):
            found = self.native.tensor(index)
            if found is not None and found[4] == 0 and found[5] > 0 and index not in known:
                raise PlanError(f"values: the program's value {index} has no memory and the plan section lacks it")

    def execute(self, inputs, outputs=None, *, wait=(), signal=(), timeout=None):
        """Run the method.

        Parameters
        ----------
        inputs : sequence
            One entry for each input: a tensor (torch, NumPy, anything with ``__dlpack__`` or the buffer protocol; read
            in place when its layout is the model's), or the number, string or None the model was exported with.
        outputs : sequence, optional
            One entry for each output: a torch tensor of the right dtype and shape to write the result into, or None
            for a fresh one.
        wait, signal : sequence, optional
            Semaphores of the program's Vulkan device: the run begins when the first are signalled, and signals the
            others when it ends well. Binary ones, or pairs of a timeline semaphore and a value.
        timeout : float, optional
            Seconds to wait for those; no end by default.

        Returns
        -------
        list
            The outputs: torch tensors on memory of the arena that live as long as you hold them, or numbers.

        Raises
        ------
        InputError, InputTypeError, ShapeError
            If an input does not fit; the message names it and what was expected.
        SizeOverflowError
            If the shapes need more bytes than sizes can say.
        ArenaFullError
            If the arena is too small for the plan or the outputs.
        RuntimeFailure
            If an operator or delegate fails. The method can be called again.
        WaitTimeoutError
            If the semaphores to wait for are not signalled in time; nothing has run.
        """
        cdef BoundShape bound
        if wait or signal:
            with self.program.between_semaphores(wait, signal, timeout):
                return self.execute(inputs, outputs)
        self.arena.enter()
        try:
            if self.failed:
                self.start_anew()
            self.reader.read(inputs)
            self.keeper.read_lengths(self.reader.key.data())
            self.writer.check(outputs)
            bound = self.choose_plan()
            self.arena.ensure_activations_in_turn(<size_t> bound.peak)
            self.reader.copy_unreadable(bound, self.arena)
            self.keeper.reserve(bound)
            self.bind_ns = 0
            if bound is not self.current:
                self.rebind(bound)
            self.point_inputs()
            self.devices.inputs_held = self.reader.on_device
            self.devices.begin(bound, self.addresses)
            self.keeper.place(self.native, self.addresses)
            self.writer.point(bound, self.native, self.reader.held)
            self.binder.scratch.check_copies(self.native)
            try:
                bound = self.run(bound)
            except BaseException as error:
                hold_leaked((self.arena, self.native), (*self.reader.held, *(outputs or ())))
                self.failed = True   # tensors may be resized, loop counters and delegates half-way: load it all anew
                self.devices.explain(error)
                raise
            results = self.writer.collect(self.native, self.reader.copies)
            self.reader.announce_write_back()
            self.keeper.commit(bound, self.native, self.reader, self.addresses.data())
            self.reader.write_back()
            self.state_bytes = self.fixed_state_bytes + self.keeper.nbytes()
            self.state_bytes_written, self.last_bind_ns = self.keeper.written, self.bind_ns
            self.last_bound, self.last_outside = bound, self.binder.scratch.take_outside()
            self.last_copies = self.reader.copies + self.devices.copies + self.binder.scratch.take_copies()
            return results
        finally:
            self.writer.drop()
            self.reader.forget()
            self.devices.forget()
            self.arena.leave()

    cdef BoundShape run(self, BoundShape bound):
        """Run with everything bound; gives the last stage."""
        cdef BoundShape last
        cdef size_t kept
        if self.stages is None:
            self.native.run(self.labels)
            self.last_cached, self.last_plan_ns = self.was_planned, 0 if self.was_planned else bound.plan_ns
            return bound
        kept = bound.tree_bytes
        self.current = None
        last = self.stages.run(bound, self.addresses)
        self.current = bound if last is bound else None
        self.last_plan_ns = self.stages.plan_ns + (0 if self.was_planned else bound.plan_ns)
        self.last_cached = self.last_plan_ns == 0
        if bound.is_cached:
            self.cache.grow(bound.tree_bytes - kept)
        return last

    def submit(self, inputs, outputs=None, *, wait=(), signal=(), timeout=None):
        """Run the method in the background, behind what was submitted before; parameters as for `execute`.

        Inputs and outputs must stay as they are until it is done. `last_run` tells of the run that ended last.

        Returns
        -------
        PendingRun
            Its ``wait`` gives the outputs, or raises what `execute` would have raised.
        """
        return self.background.submit(
            partial(self.execute, inputs, outputs, wait=tuple(wait), signal=tuple(signal), timeout=timeout)
        )

    def __call__(self, *args, **kwargs):
        """Run the method on positional inputs and inputs by name; nested lists, tuples and dicts are flattened."""
        inputs = list(args)
        if any(isinstance(item, (list, tuple, dict)) for item in (*args, *kwargs.values())):
            from torch.utils._pytree import tree_leaves

            return self.execute(tree_leaves((args, kwargs)))
        names = [entry.name for entry in self.section.inputs]
        for name in names[len(inputs):] if kwargs else ():
            if name not in kwargs:
                raise InputTypeError(f"input {name!r} is missing; the method's inputs are {', '.join(names)}")
            inputs.append(kwargs.pop(name))
        if kwargs:
            extra = next(iter(kwargs))
            raise InputTypeError(f"{extra!r} is no further input; the method's inputs are {', '.join(names)}")
        return self.execute(inputs)

    cdef BoundShape choose_plan(self):
        """Find the plan of the inputs just read: the current one, one from the cache, or a new one."""
        cdef BoundShape bound
        cdef size_t nbytes = self.binder.key_length * sizeof(int64_t)
        self.was_planned = True
        if self.current is not None and memcmp(self.reader.key.data(), self.current_key.data(), nbytes) == 0:
            return self.better_plan(self.current) if self.anytime else self.current
        if self.keeps_plans:
            key = (<char*> self.reader.key.data())[:nbytes]
            bound = self.cache.find(key)
            if bound is not None:
                return self.better_plan(bound) if self.anytime else bound
        self.was_planned = False
        bound = self.binder.bind(self.reader.key.data())
        if self.keeps_plans:
            self.cache.add(key, bound)
        return bound

    cdef BoundShape better_plan(self, BoundShape bound):
        """The plan that a background search found for the inputs just read, or the one there is."""
        cdef BoundShape better
        if bound.peak <= bound.lower_bound or self.stages is not None:
            return bound
        better = improved(self.binder, bound)
        if better is not bound:
            self.cache.replace((<char*> self.reader.key.data())[:self.binder.key_length * sizeof(int64_t)], better)
        return better

    cdef int rebind(self, BoundShape bound) except -1:
        """Give every native tensor the sizes and the address of this plan."""
        cdef int i, position
        cdef Fixed fixed
        cdef char* base = self.arena.base_address
        cdef int64_t begin = now_ns()
        self.current = None
        # Inputs and outputs get theirs for each run; until then any valid address will do.
        self.addresses.assign(self.addresses.size(), base)
        for fixed in self.fixed:
            if bound.nbytes[fixed.position] > fixed.nbytes:
                name = self.section.values[fixed.position].name
                raise PlanError(
                    f"values[{fixed.position}].sizes: {name!r} takes {bound.nbytes[fixed.position]} bytes, its memory "
                    f"has {fixed.nbytes}"
                )
            self.addresses[fixed.position] = fixed.address
        for i in range(<int> self.binder.planned.size()):
            self.addresses[self.binder.planned[i]] = base + bound.offsets[i]
        self.devices.rebind(bound, self.addresses)
        for position in self.binder.sharing:
            self.addresses[position] = self.addresses[self.binder.storage[position]]
        self.native.rebind(bound.sizes.data(), self.addresses.data())
        self.keeper.placed.assign(self.keeper.placed.size(), NULL)
        self.binder.scratch.take_sizes(bound.sizes)
        for i in range(<int> bound.scratch.size()):
            self.binder.place_scratch(bound, i, base)
        self.current = bound
        self.current_key = self.reader.key
        self.bind_ns = now_ns() - begin
        return 0

    cdef int point_inputs(self) except -1:
        """Point input tensors at the caller's memory and set int inputs."""
        cdef int position, slot
        cdef void* address
        for position in range(<int> self.binder.input_values.size()):
            slot = self.binder.input_values[position]
            if slot >= 0:
                address = self.reader.address(position)
                # An empty tensor may have no memory at all, but kernels expect an address.
                self.native.set_address(slot, self.arena.base_address if address == NULL else address)
            elif self.binder.key_start[position] >= 0:
                self.native.set_int(
                    self.section.inputs[position].index, self.reader.key[self.binder.key_start[position]]
                )
        return 0

    def plan_for(self, shapes, told=None):
        """Plan without running, for states as they are now.

        Parameters
        ----------
        shapes : sequence or mapping
            Sizes of each tensor input (an int for an int input that is a symbol), in order or by input name.
        told : mapping of str to int, optional
            Numbers that data would tell, by the name of the symbol (`etarena inspect` lists them). What depends on a
            symbol without a number is not in the plan, or has its upper bound.

        Returns
        -------
        MemoryPlan
            Peak, lower bound, and every buffer with its place and lifetime.
        """
        cdef BoundShape bound
        cdef vector[int64_t] key
        wanted = [entry for position, entry in enumerate(self.section.inputs) if self.binder.key_start[position] >= 0]
        shapes = listed_shapes(wanted, shapes)
        flat = [size for entry, shape in zip(wanted, shapes) for size in checked_shape(self.section, entry, shape)]
        key.resize(max(self.binder.key_length, 1))
        for position, size in enumerate(flat):
            key[position] = size
        self.arena.enter()   # the binder's scratch is shared with running calls
        try:
            self.keeper.read_lengths(key.data())
            bound = self.binder.bind(key.data())
            if told:
                bound = self.told_stage(bound, told)
        finally:
            self.arena.leave()
        given = tuple(tuple(shape) if hasattr(shape, "__iter__") else shape for shape in shapes)
        return described_plan(self.name, given, self.section, self.labels, self.binder, bound, self.state_bytes)

    cdef BoundShape told_stage(self, BoundShape bound, object told):
        """Go through the stages as a run would in which data tells these numbers."""
        names = {symbol.name: i for i, symbol in enumerate(self.section.symbols) if self.binder.told[i]}
        for name, number in dict(told).items():
            if name not in names:
                raise InputError(f"told: no symbol {name!r} is told by data; there are {', '.join(names) or 'none'}")
            if isinstance(number, bool) or not hasattr(number, "__index__") or not -(2**63) <= number < 2**63:
                raise InputTypeError(f"told: {name!r} must be an int of 64 bits, got {number!r}")
        return self.stages.follow(bound, {names[name]: number for name, number in dict(told).items()})

    @property
    def last_run(self):
        """Figures of the last successful run (RunStats); None before the first."""
        if self.last_bound is None:
            return None
        return RunStats(
            self.last_bound.run_peak, self.last_bound.run_bound, self.last_bound.output_bytes, self.state_bytes,
            max(self.last_bound.scratch, default=0), self.last_outside, self.last_plan_ns,
            bool(self.last_cached), self.last_bound.stage + 1, tuple(self.last_copies), self.last_bound.moved_bytes,
            self.state_bytes_written, self.devices.figures(self.last_bound), self.last_bind_ns,
        )

    @property
    def cached_plans(self):
        """Number of plans in the cache."""
        return len(self.cache)

    @property
    def cached_bytes(self):
        """Bytes that they keep."""
        return self.cache.nbytes

    @property
    def cache_limit(self):
        """Bytes that they may keep."""
        return self.cache.limit

    @property
    def state(self):
        """The states of the method by name (States); shared with the program's methods that name the same buffers."""
        return States(self.arena, self.held_states)

    def __reduce__(self):
        """Refuse pickling: a method is memory of this process."""
        raise TypeError("a method cannot be pickled: send the path or bytes of its .pte file and load it there")

    def __repr__(self):
        inputs = ", ".join(entry.name for entry in self.section.inputs)
        return f"<etarena method {self.name}({inputs}), {len(self.cache)} plans cached>"

    cdef int start_anew(self) except -1:
        """Load the native method anew; its delegates may need other scratch than those before."""
        self.cache.clear()
        self.current = None
        return self.load()

    def trim(self):
        """Drop cached plans, load the method's delegates anew and give unused pages of the arena back."""
        self.arena.enter()
        try:
            self.devices.trim()
            self.start_anew()
        finally:
            self.arena.leave()
        self.arena.trim()
