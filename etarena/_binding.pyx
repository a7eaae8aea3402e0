# distutils: language = c++
"""From input shapes to a bound plan: symbols, sizes, bytes, offsets."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from etarena._equations cimport Equations
from etarena._scratch cimport DelegateScratch
from etarena.allocator.oriented cimport OrientedPlanner
from etarena.allocator.planner cimport OffsetPlanner
from etarena.allocator.sizes cimport SizeProgram

from .allocator import plan as plan_section
from .allocator.errors import PlanError, ShapeError, SizeOverflowError
from .allocator.plan import Teller
from .device.dtypes import ITEM_BYTES
from .shapes import wrong_length

cdef extern from "value_sizes.h" namespace "etarena" nogil:
    size_t measure_ordinary(const ValueShape* shapes, size_t begin, size_t count, const int32_t* registers_of,
                            const int64_t* registers, int32_t* sizes, int64_t* nbytes, size_t* dim)

cdef int64_t LARGEST_BYTES = <int64_t> 1 << 62

cdef enum:
    ACTIVATION = 0
    OUTPUT = 2


cdef int64_t now_ns() noexcept nogil:
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return <int64_t> moment.tv_sec * 1_000_000_000 + moment.tv_nsec


cdef inline bint is_known(BoundShape bound, int register) noexcept:
    return bound.known.size() == 0 or bound.known[register]


cdef class BoundShape:
    cdef size_t footprint(self) noexcept:
        """Bytes this object keeps, for the cache's limit."""
        cdef size_t numbers = self.nbytes.size() + self.offsets.size() + self.registers.size() + 4 * self.moves.size()
        cdef size_t flags = self.known.size() + self.ready.size()
        numbers += self.grown.size() + self.scratch.size()
        return 4 * (self.sizes.size() + self.changed.size()) + 8 * numbers + flags + self.tree_bytes + 512


cdef class ShapeBinder:
    """Binds a method's plan section to input shapes.

    Parameters
    ----------
    section
        Decoded and validated plan section of the method.
    alignment
        Alignment of the planned buffers in bytes.
    """

    def __cinit__(self, section, int alignment=64):
        cdef int position, total = 0
        self.section = section
        self.program = SizeProgram(len(section.symbols), section.size_code)
        self.planner = OffsetPlanner(alignment)
        self.oriented = OrientedPlanner(self.planner)
        for value in section.values:
            self.rank.push_back(len(value.sizes))
            self.start.push_back(total)
            total += len(value.sizes)
            for register in value.sizes:
                self.registers.push_back(register)
            for dim in value.dim_order:
                self.dim_orders.push_back(dim)
            if value.dtype not in ITEM_BYTES:
                raise PlanError(f"values[{value.index}].dtype: no such ExecuTorch dtype code {value.dtype}")
            self.dtypes.push_back(value.dtype)
            self.shapes.push_back(ValueShape(len(value.sizes), ITEM_BYTES[value.dtype]))
            self.storage.push_back(value.storage)
            on_device = value.device_type != 0 and value.kind != plan_section.Kind.INPUT
            self.kind.push_back(<int> ON_DEVICE if on_device else value.kind)
        places = {}
        for position, value in enumerate(section.values):
            if value.storage == position and value.is_planned:
                places[position] = self.planned.size()
                self.planned.push_back(position)
                self.first.push_back(value.first)
                self.last.push_back(value.last)
        for position in section.order:
            self.preferred.push_back(places[position])
        for entry in section.inputs:
            self.input_values.push_back(entry.value)
            if entry.scalar == plan_section.Scalar.TENSOR:
                self.key_start.push_back(self.key_length)
                self.key_length += len(section.values[entry.value].sizes)
            elif entry.symbol >= 0:
                self.key_start.push_back(self.key_length)
                self.key_length += 1
            else:
                self.key_start.push_back(-1)
        self.state_start = self.key_length
        self.grows.assign(len(section.values), -1)
        for position, state in enumerate(section.states):
            if state.dim >= 0:
                self.grows[state.value] = <int> self.growing.size()
                self.growing.push_back(position)
                self.key_length += 1
        self.equations = Equations(section, self._place_of)
        for guard in section.guards:
            self.guards.push_back(guard.register)
        self.expect_discoveries()
        for position, value in enumerate(section.values):
            if value.storage == position and self.kind[position] == OUTPUT:
                self.results.push_back(position)
            if self.in_stages or value.storage != position or self.grows[position] >= 0:
                self.sharing.push_back(position)

    def _place_of(self, source):
        """Where in the key the size is that determines a symbol."""
        if isinstance(source, plan_section.Binding):
            return self.key_start[source.input] + max(source.dim, 0)
        return self.state_start + self.grows[self.section.states[source.value].value]

    cdef int expect_discoveries(self) except -1:
        """Note which sizes are unknown when a call begins, and what lives across the stops at which they are told."""
        stops = set()
        self.told.assign(len(self.section.symbols), 0)
        self.bounded.assign(self.registers.size(), -1)
        for discovery in self.section.discoveries:
            if discovery.teller == Teller.STATE_LENGTH:
                continue
            self.in_stages = True
            self.told[discovery.symbol] = 1
            stops.add(discovery.instruction + (discovery.teller != Teller.COUNT_NONZERO))
            if discovery.teller == Teller.SIZE and discovery.upper >= 0:
                self.bounded[self.start[discovery.value] + discovery.dim] = discovery.upper
        lives = [(self.first[i] - self.last[i], i) for i in range(<int> self.planned.size())
                 if any(self.first[i] < stop < self.last[i] for stop in stops)]
        for _, i in sorted(lives):
            self.crossing.push_back(i)
        return 0

    cdef BoundShape bind(self, const int64_t* key):
        """Plan for one set of sizes: the dimensions of all tensor inputs and int symbols, and the lengths of caches.

        Raises
        ------
        ShapeError
            If the sizes are outside the model's guards.
        SizeOverflowError
            If a tensor is too large for ExecuTorch (2**31 - 1 a dimension or stride) or for 64-bit bytes.
        """
        cdef int64_t begin = now_ns()
        cdef BoundShape bound = BoundShape.__new__(BoundShape)
        cdef int symbol
        bound.registers.resize(max(self.program.n_registers, 1))
        self.equations.solve(key, bound.registers.data())
        if self.in_stages:
            bound.known.assign(bound.registers.size(), 1)
            for symbol in range(<int> self.told.size()):
                bound.known[symbol] = not self.told[symbol]
        self.evaluate(bound)
        self.check_inputs(key, bound.registers.data())
        if self.growing.size() > 0:
            self.check_lengths(key, bound)
        self.measure(bound)
        self.measure_scratch(bound, None)
        self.place(bound)
        bound.run_peak = bound.peak
        bound.run_bound = self.largest_live(bound) if self.in_stages else bound.lower_bound
        bound.plan_ns = bound.run_plan_ns = now_ns() - begin
        return bound

    cdef int evaluate(self, BoundShape bound) except -1:
        """Fill the registers from the symbols, as far as they are known, and check the guards that can be decided."""
        cdef int i
        if self.in_stages:
            self.program.evaluate_known(bound.registers.data(), bound.known.data())
        else:
            self.program.evaluate_into(bound.registers.data(), bound.registers.data())
        for i in range(<int> self.guards.size()):
            if bound.registers[self.guards[i]] == 0 and is_known(bound, self.guards[i]):
                text = self.section.guards[i].text
                raise ShapeError(f"these sizes break a condition of the model: {text}{self.sizes_text(bound)}")
        return 0

    cdef int check_lengths(self, const int64_t* key, BoundShape bound) except -1:
        cdef int i
        cdef int64_t length, expected
        for i in range(<int> self.growing.size()):
            state = self.section.states[self.growing[i]]
            length = key[self.state_start + i]   # which the method's `past` must be
            expected = bound.registers[self.registers[self.start[state.value] + state.dim]]
            if length != expected:
                raise wrong_length(state, length, expected)
        return 0

    cdef int check_inputs(self, const int64_t* key, const int64_t* registers) except -1:
        """Every input dimension must have the size that the model's own expressions give it, and every guard hold."""
        cdef int position, value, d
        cdef int64_t expected, actual
        for position in range(<int> self.input_values.size()):
            value = self.input_values[position]
            for d in range(self.rank[value] if value >= 0 else 0):
                expected = registers[self.registers[self.start[value] + d]]
                actual = key[self.key_start[position] + d]
                if expected != actual:
                    place = self.equations.place_name(position, d)
                    raise ShapeError(f"{place} is {actual}, but must be {expected}{self.reason(value, d)}")
        return 0

    cdef int measure(self, BoundShape bound) except -1:
        """Sizes and bytes of every value; those of values that are not known yet stay 0."""
        cdef int position, owner
        cdef size_t next = 0, dim = 0, count = self.rank.size()
        bound.sizes.resize(self.registers.size())
        bound.nbytes.resize(count)
        bound.ready.assign(count, READY)
        while next < count:
            if not self.in_stages:
                next = measure_ordinary(
                    self.shapes.data(), next, count, self.registers.data(), bound.registers.data(),
                    bound.sizes.data(), bound.nbytes.data(), &dim,
                )
            if next < count:
                bound.ready[next] = self.measure_value(bound, <int> next)
                dim += self.rank[next]
                next += 1
        for position in self.results:
            bound.output_bytes += bound.nbytes[position]
        bound.grown.assign(self.growing.size(), 0)
        for position in self.sharing:
            owner = self.storage[position]
            if bound.ready[position] == UNKNOWN or bound.ready[owner] == UNKNOWN:
                self.leave_out(bound, position)
            elif self.grows[owner] >= 0:
                bound.grown[self.grows[owner]] = max(bound.grown[self.grows[owner]], bound.nbytes[position])
            elif bound.nbytes[position] > bound.nbytes[owner]:
                raise PlanError(f"values[{position}].storage: the value is larger than the memory it shares")
        return 0

    cdef int measure_value(self, BoundShape bound, int position) except -1:
        """Sizes and bytes of one value; gives whether they are known."""
        cdef int i, d, register, where
        cdef int state = READY
        cdef int64_t size, stride = 1, count = self.shapes[position].item_bytes
        for i in range(self.rank[position]):
            where = self.start[position] + i
            register = self.registers[where]
            if not is_known(bound, register):
                register = self.bounded[where]
                state = BOUNDED
                if register < 0 or not is_known(bound, register):
                    return UNKNOWN
            size = bound.registers[register]
            if size < 0:
                raise ShapeError(
                    f"value {self.section.values[position].name!r} would have size {size} in dimension {i}: "
                    f"the sizes are too small for the model{self.sizes_text(bound)}"
                )
            if size > INT32_MAX or (size > 0 and count > LARGEST_BYTES // size):
                raise self.too_large(position, bound)
            bound.sizes[where] = <int32_t> size
            count *= size
        bound.nbytes[position] = count
        if 0 < count <= INT32_MAX:          # no stride is larger than that
            return state
        for i in range(self.rank[position] - 1, 0, -1):
            d = self.dim_orders[self.start[position] + i]
            stride *= max(bound.sizes[self.start[position] + d], 1)
            if stride > INT32_MAX:
                raise self.too_large(position, bound)
        return state

    cdef void leave_out(self, BoundShape bound, int position) noexcept:
        """A value whose sizes are not known: empty, so that a kernel that wrote it too early would get an error."""
        cdef int i
        for i in range(self.rank[position]):
            bound.sizes[self.start[position] + i] = 0
        bound.nbytes[position] = 0
        bound.ready[position] = UNKNOWN

    cdef int64_t largest_live(self, BoundShape bound):
        """Largest sum of planned bytes that live at one instruction, as far as their sizes are known exactly."""
        cdef int i, owner
        cdef int64_t live = 0, largest = 0
        cdef vector[int64_t] change
        change.assign(self.section.instructions + 1, 0)
        for i in range(<int> self.planned.size()):
            owner = self.planned[i]
            if bound.ready[owner] == READY:
                change[self.first[i]] += self.bytes_of(bound, i)
                change[self.last[i]] -= self.bytes_of(bound, i)
        for i in range(<int> bound.scratch.size()):
            change[self.scratch.instruction[i]] += bound.scratch[i]
            change[self.scratch.instruction[i] + 1] -= bound.scratch[i]
        for i in range(<int> change.size()):
            live += change[i]
            largest = max(largest, live)
        return largest

    cdef int place(self, BoundShape bound) except -1:
        """Offsets of the planned buffers."""
        cdef int count = self.buffers()
        cdef bint caches = self.growing.size() > 0 and not self.in_stages
        cdef int64_t* sizes
        self.buffer_bytes.resize(max(count, 1))
        bound.offsets.resize(max(count, 1))
        sizes = self.buffer_bytes.data()
        self.list_bytes(bound, sizes)
        # Only caches became longer: the plan stays.
        if caches and self.last_plan is not None and self.buffer_bytes == self.last_sizes:
            bound.offsets, bound.peak = self.last_plan.offsets, self.last_plan.peak
            bound.lower_bound = self.last_plan.lower_bound
            return 0
        self.last_plan = None
        self.scratch.align(self.planner, self.planned, sizes)
        with nogil:
            if self.in_stages:
                # What lives across a stop comes first and low, so that it need not move when the rest is planned again.
                self.planner.plan(
                    count, sizes, self.first.data(), self.last.data(), self.crossing.data(),
                    <int> self.crossing.size(), bound.offsets.data(), &bound.peak, &bound.lower_bound,
                )
            else:
                self.oriented.plan(
                    count, sizes, self.first.data(), self.last.data(), self.preferred.data(),
                    <int> self.preferred.size(), bound.offsets.data(), &bound.peak, &bound.lower_bound,
                    self.same_lifetimes,
                )
        self.same_lifetimes = not self.in_stages
        if caches:
            self.last_plan, self.last_sizes = bound, self.buffer_bytes
        return 0

    cdef int use_scratch(self, DelegateScratch scratch) except -1:
        """Plan the scratch of these delegates from now on, which are those of the method as it was just loaded."""
        cdef int i
        self.first.resize(self.planned.size())
        self.last.resize(self.planned.size())
        for i in range(scratch.count()):
            self.first.push_back(scratch.instruction[i])
            self.last.push_back(scratch.instruction[i] + 1)
        self.scratch, self.last_plan, self.same_lifetimes = scratch, None, False
        return 0

    cdef int buffers(self) noexcept:
        """Number of planned buffers: those of values, then the scratch of each delegate call."""
        return <int> self.first.size()

    cdef void list_bytes(self, BoundShape bound, int64_t* sizes) noexcept:
        """The bytes of all planned buffers."""
        cdef int i, planned = <int> self.planned.size()
        for i in range(planned):
            sizes[i] = bound.nbytes[self.planned[i]]
        if self.scratch.has_multiples:
            for i in range(planned):
                sizes[i] = self.scratch.padded(self.planned[i], sizes[i])
        if bound.scratch.size() > 0:
            memcpy(sizes + planned, bound.scratch.data(), bound.scratch.size() * sizeof(int64_t))

    cdef int64_t bytes_of(self, BoundShape bound, int buffer) noexcept:
        if buffer >= <int> self.planned.size():
            return bound.scratch[buffer - self.planned.size()]
        return self.scratch.padded(self.planned[buffer], bound.nbytes[self.planned[buffer]])

    cdef int measure_scratch(self, BoundShape bound, BoundShape before) except -1:
        """Bytes of scratch that each delegate call needs; as in `before` where its arguments are the same."""
        cdef int i
        bound.scratch.assign(self.scratch.count(), 0)
        self.scratch.take_sizes(bound.sizes)
        for i in range(self.scratch.count()):
            if before is not None and not self.call_changed(bound, before, i):
                bound.scratch[i] = before.scratch[i]
            elif self.call_is_ready(bound, i):
                bound.scratch[i] = self.scratch.measure(i)
        return 0

    cdef bint call_is_ready(self, BoundShape bound, int call) noexcept:
        cdef int i, slot
        if not self.in_stages:
            return True
        for i in range(self.scratch.start[call], self.scratch.start[call + 1]):
            slot = self.scratch.slots[i]
            if slot >= 0 and bound.ready[slot] == UNKNOWN:
                return False
        return True

    cdef bint call_changed(self, BoundShape bound, BoundShape before, int call) noexcept:
        cdef int i, k, slot
        for i in range(self.scratch.start[call], self.scratch.start[call + 1]):
            slot = self.scratch.slots[i]
            if slot < 0:
                continue
            if bound.ready[slot] != before.ready[slot]:
                return True
            for k in range(self.start[slot], self.start[slot] + self.rank[slot]):
                if bound.sizes[k] != before.sizes[k]:
                    return True
        return False

    cdef int place_scratch(self, BoundShape bound, int call, char* base) except -1:
        """Tell a delegate call where its scratch is, once its arguments are known; their sizes were taken."""
        if not self.call_is_ready(bound, call):
            return 0
        return self.scratch.place(call, base + bound.offsets[self.planned.size() + call], bound.scratch[call])

    def reason(self, int value, int dim):
        """Say why a size is what it must be, when it depends on symbols."""
        register = self.section.values[value].sizes[dim]
        if register < len(self.section.symbols):
            return f" ({self.section.symbols[register].name} everywhere)"
        opcode = self.section.size_code[register - len(self.section.symbols)][0]
        return "" if opcode == 0 else " (it follows from the other sizes)"

    cdef object sizes_text(self, BoundShape bound):
        """List the symbols with their sizes, to end a message with."""
        names = [symbol.name for symbol in self.section.symbols]
        sizes = ", ".join(f"{names[i]} = {bound.registers[i]}" for i in range(len(names)) if is_known(bound, i))
        return f" ({sizes})" if sizes else ""

    cdef object too_large(self, int position, BoundShape bound):
        shape = [bound.registers[self.registers[self.start[position] + i]] for i in range(self.rank[position])]
        return SizeOverflowError(
            f"value {self.section.values[position].name!r} would have shape {shape}: ExecuTorch's sizes end at "
            f"2**31 - 1 and bytes at 2**62; use smaller inputs{self.sizes_text(bound)}"
        )
