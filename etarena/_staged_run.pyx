# distutils: language = c++
"""One call of a method in which data tells sizes: run to a stop, plan what is left, go on."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove
from libcpp.vector cimport vector

from etarena._binding cimport MOVE, SAVE, BoundShape, Move, ShapeBinder
from etarena._device_memory cimport DeviceMemory
from etarena._outputs cimport OutputWriter
from etarena._runtime cimport NativeMethod, Probe, Stop
from etarena._stages cimport StagePlanner
from etarena.allocator.arena cimport Arena

from .allocator.errors import ShapeError
from .allocator.plan import Teller

cdef enum:
    ACTIVATION = 0
    OUTPUT = 2
    FORGET = 3


cdef class StagedRun:
    """Serves one call after another.

    Parameters
    ----------
    binder, native, writer, arena, devices
        Of the method.
    labels
        Operator of each instruction, for messages.
    cache_limit
        Bytes that the stages which follow one set of input sizes may keep.
    """

    def __cinit__(
        self, ShapeBinder binder not None, NativeMethod native not None, OutputWriter writer not None,
        Arena arena not None, DeviceMemory devices not None, tuple labels not None, size_t cache_limit,
    ):
        cdef vector[Probe] probes
        section = binder.section
        self.binder, self.native, self.writer, self.arena = binder, native, writer, arena
        self.devices, self.labels, self.cache_limit = devices, labels, cache_limit
        self.planner = StagePlanner(binder)
        for entry in section.discoveries:
            if entry.teller == Teller.STATE_LENGTH:
                continue
            probes.push_back(
                Probe(
                    entry.teller, entry.symbol, entry.instruction, entry.value, entry.index, entry.dim, entry.scale,
                    entry.offset,
                )
            )
            if entry.teller == Teller.SIZE and entry.upper >= 0:
                probes.push_back(Probe(FORGET, entry.symbol, entry.instruction, entry.value, -1, 0, 1, 0))
        native.learn_probes(probes, section.instructions, len(section.symbols))

    cdef BoundShape run(self, BoundShape root, vector[char*]& addresses):
        """Run the method, whose tensors are bound to `root`; gives the last stage.

        Raises
        ------
        ShapeError
            If data tells a size that the model does not allow.
        """
        cdef Stop stop
        cdef BoundShape bound = root
        self.root, self.plan_ns = root, 0
        self.native.begin_stages()
        while self.native.run_to_stop(&stop, self.labels):
            if stop.probe >= 0:
                raise self.uneven(stop.position, stop.number)
            bound = self.next_stage(bound, &stop)
            self.enter(bound, addresses)
        return bound

    cdef BoundShape next_stage(self, BoundShape bound, Stop* stop):
        """The stage that begins here with the numbers told: planned before, or now."""
        cdef size_t count = self.binder.told.size()
        cdef BoundShape following
        numbers = PyBytes_FromStringAndSize(<char*> self.native.told_numbers(), count * sizeof(int64_t))
        key = (stop.position, numbers, PyBytes_FromStringAndSize(<char*> self.native.told_known(), count))
        found = None if bound.following is None else bound.following.get(key)
        if found is not None:
            return <BoundShape> found
        following = self.planner.advance(bound, stop.position, self.native.told_numbers(), self.native.told_known())
        self.plan_ns += following.plan_ns
        if self.root.tree_bytes + following.footprint() <= self.cache_limit:
            self.root.tree_bytes += following.footprint()
            if bound.following is None:
                bound.following = {}
            bound.following[key] = following
        return following

    cdef BoundShape follow(self, BoundShape bound, dict told):
        """Plan the stages of a run in program order in which data tells these numbers, by position of the symbol."""
        cdef vector[int64_t] numbers
        cdef vector[uint8_t] known
        numbers.assign(self.binder.told.size() + 1, 0)  # never empty: its address is passed on
        known.assign(self.binder.told.size() + 1, 0)
        stops = {}
        for entry in self.binder.section.discoveries:
            if entry.symbol in told and self.binder.told[entry.symbol]:
                position = entry.instruction + (entry.teller != Teller.COUNT_NONZERO)
                stops.setdefault(position, set()).add(entry.symbol)
        for position in sorted(stops):
            for symbol in stops[position]:
                numbers[symbol], known[symbol] = told[symbol], 1
            bound = self.planner.advance(bound, position, numbers.data(), known.data())
        return bound

    cdef int enter(self, BoundShape bound, vector[char*]& addresses) except -1:
        """Bring memory and tensors from the stage before into this one."""
        cdef int i, position, owner
        cdef char* address
        self.arena.ensure_activations_nogil(<size_t> bound.peak)
        self.move(bound)
        self.writer.appear(bound, self.native)
        self.devices.appear(bound, addresses)
        for i in range(<int> bound.changed.size()):
            position = bound.changed[i]
            owner = self.binder.storage[position]
            if self.binder.kind[position] == ACTIVATION:
                address = self.arena.base_address + bound.offsets[self.planner.place_of[owner]]
            elif self.binder.kind[position] == OUTPUT:
                address = <char*> self.writer.address_of(owner)
            else:
                address = addresses[owner]
            self.native.rebind_one(position, bound.sizes.data() + self.binder.start[position], address)
        self.binder.scratch.take_sizes(bound.sizes)
        for i in range(<int> bound.changed_calls.size()):
            self.binder.place_scratch(bound, bound.changed_calls[i], self.arena.base_address)
        self.binder.scratch.check_copies(self.native)
        return 0

    cdef void move(self, BoundShape bound) noexcept:
        """Copy live buffers to their new places."""
        cdef int i
        cdef Move step
        cdef char* base = self.arena.base_address
        if self.aside.size() < <size_t> bound.aside_bytes:
            self.aside.resize(bound.aside_bytes)
        for i in range(<int> bound.moves.size()):
            step = bound.moves[i]
            if step.role == MOVE:
                memmove(base + step.target, base + step.source, step.nbytes)
            elif step.role == SAVE:
                memcpy(self.aside.data() + step.target, base + step.source, step.nbytes)
            else:
                memcpy(base + step.target, self.aside.data() + step.source, step.nbytes)

    def uneven(self, position, number):
        """Describe a number that no whole number of the symbol's gives."""
        label = self.labels[min(max(position - 1, 0), len(self.labels) - 1)]
        return ShapeError(f"the number {number} that the data gives at instruction {position} ({label}) fits no size")
