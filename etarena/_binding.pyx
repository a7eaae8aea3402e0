# distutils: language = c++
"""From input shapes to a bound plan: symbols, sizes, bytes, offsets."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libcpp.vector cimport vector
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from etarena.allocator.planner cimport OffsetPlanner
from etarena.allocator.sizes cimport SizeProgram

from .allocator import AnytimePlanner
from .allocator import plan as plan_section
from .allocator.errors import PlanError, ShapeError, SizeOverflowError
from .dtypes import ITEM_BYTES

cdef int64_t LARGEST_BYTES = <int64_t> 1 << 62

cdef enum:
    ACTIVATION = 0
    OUTPUT = 2


cdef int64_t now_ns() noexcept nogil:
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return <int64_t> moment.tv_sec * 1_000_000_000 + moment.tv_nsec


cdef class BoundShape:
    cdef size_t footprint(self) noexcept:
        """Bytes this object keeps, for the cache's limit."""
        return 4 * self.sizes.size() + 8 * (self.nbytes.size() + self.offsets.size() + self.grown.size()) + 256


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
            self.item_bytes.push_back(ITEM_BYTES[value.dtype])
            self.storage.push_back(value.storage)
            self.kind.push_back(value.kind)
        places = {}
        for position, value in enumerate(section.values):
            if value.storage == position and value.kind == plan_section.Kind.ACTIVATION:
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
        cdef vector[int64_t] registers
        cdef BoundShape bound = BoundShape.__new__(BoundShape)
        registers.resize(max(self.program.n_registers, 1))
        self.find_symbols(key, registers.data())
        self.find_lengths(key, registers.data())
        # The program writes all registers, symbols included: give it its own copy of the symbols.
        cdef vector[int64_t] symbols = registers
        self.program.evaluate_into(symbols.data(), registers.data())
        self.check_inputs(key, registers.data())
        self.check_lengths(key, registers.data())
        self.measure(bound, registers.data())
        self.place(bound)
        bound.plan_ns = now_ns() - begin
        return bound

    cdef int find_symbols(self, const int64_t* key, int64_t* symbols) except -1:
        cdef int64_t size, number
        for binding in self.section.bindings:
            size = key[self.key_start[binding.input] + max(binding.dim, 0)]
            symbol = self.section.symbols[binding.symbol]
            place = self.place_name(binding.input, binding.dim)
            number, rest = divmod(size - binding.offset, binding.scale)
            if rest:
                form = f"{binding.scale}*{symbol.name}" + (f" + {binding.offset}" if binding.offset else "")
                raise ShapeError(f"{place} is {size}, but must be {form} for a whole number {symbol.name}")
            if number < symbol.min:
                raise ShapeError(f"{place} is {size}, but {symbol.name} must be at least {symbol.min} (it is {number})")
            if number > symbol.max:
                raise ShapeError(f"{place} is {size}, but {symbol.name} must be at most {symbol.max} (it is {number})")
            symbols[binding.symbol] = number
        return 0

    cdef int find_lengths(self, const int64_t* key, int64_t* symbols) except -1:
        """Symbols that the lengths of growing states tell."""
        cdef int64_t number, length
        for discovery in self.section.discoveries:
            if discovery.teller != plan_section.Teller.STATE_LENGTH:
                continue
            state = self.section.states[discovery.value]
            length = key[self.state_start + self.grows[state.value]]
            symbol = self.section.symbols[discovery.symbol]
            number, rest = divmod(length - discovery.offset, discovery.scale)
            if rest or not symbol.min <= number <= symbol.max:
                raise ShapeError(
                    f"state {state.name!r} holds {length} entries, but the model allows {symbol.min} to {symbol.max} "
                    f"for {symbol.name}" + (f", {discovery.scale} at a time" if discovery.scale > 1 else "")
                )
            symbols[discovery.symbol] = number
        return 0

    cdef int check_lengths(self, const int64_t* key, const int64_t* registers) except -1:
        """Every growing state must have the length that the method's `past` says."""
        cdef int i
        cdef int64_t length, expected
        for i in range(<int> self.growing.size()):
            state = self.section.states[self.growing[i]]
            length = key[self.state_start + i]
            expected = registers[self.registers[self.start[state.value] + state.dim]]
            if length != expected:
                raise ShapeError(
                    f"state {state.name!r} holds {length} entries in dimension {state.dim}, but past says {expected}: "
                    "reset or write the states that are not in step"
                )
        return 0

    cdef int check_inputs(self, const int64_t* key, const int64_t* registers) except -1:
        """Every input dimension must have the size that the model's own expressions give it, and every guard hold."""
        cdef int position, value, d
        cdef int64_t expected, actual
        for position, entry in enumerate(self.section.inputs):
            if entry.value < 0:
                continue
            value = entry.value
            for d in range(self.rank[value]):
                expected = registers[self.registers[self.start[value] + d]]
                actual = key[self.key_start[position] + d]
                if expected != actual:
                    raise ShapeError(
                        f"{self.place_name(position, d)} is {actual}, but must be {expected}{self.reason(value, d)}"
                    )
        for guard in self.section.guards:
            if registers[guard.register] == 0:
                sizes = self.sizes_text(registers)
                raise ShapeError(f"the input sizes break a condition of the model: {guard.text}{sizes}")
        return 0

    cdef int measure(self, BoundShape bound, const int64_t* registers) except -1:
        """Sizes and bytes of every value."""
        cdef int position, i, d
        cdef int64_t size, count, stride
        bound.sizes.resize(self.registers.size())
        bound.nbytes.resize(self.rank.size())
        for position in range(<int> self.rank.size()):
            count = self.item_bytes[position]
            stride = 1
            for i in range(self.rank[position]):
                size = registers[self.registers[self.start[position] + i]]
                if size < 0:
                    raise ShapeError(
                        f"value {self.section.values[position].name!r} would have size {size} in dimension {i}: "
                        f"the input is too small for the model{self.sizes_text(registers)}"
                    )
                if size > INT32_MAX or (size > 0 and count > LARGEST_BYTES // size):
                    raise self.too_large(position, registers)
                bound.sizes[self.start[position] + i] = <int32_t> size
                count *= size
            for i in range(self.rank[position] - 1, 0, -1):
                d = self.dim_orders[self.start[position] + i]
                stride *= max(bound.sizes[self.start[position] + d], 1)
                if stride > INT32_MAX:
                    raise self.too_large(position, registers)
            bound.nbytes[position] = count
            if self.storage[position] == position and self.kind[position] == OUTPUT:
                bound.output_bytes += count
        bound.grown.assign(self.growing.size(), 0)
        for position in range(<int> self.rank.size()):
            i = self.grows[self.storage[position]]
            if i >= 0:
                bound.grown[i] = max(bound.grown[i], bound.nbytes[position])
            elif bound.nbytes[position] > bound.nbytes[self.storage[position]]:
                raise PlanError(f"values[{position}].storage: the value is larger than the memory it shares")
        return 0

    cdef int place(self, BoundShape bound) except -1:
        """Offsets of the planned buffers."""
        cdef int i, count = <int> self.planned.size()
        cdef vector[int64_t] sizes
        sizes.resize(max(count, 1))
        bound.offsets.resize(max(count, 1))
        for i in range(count):
            sizes[i] = bound.nbytes[self.planned[i]]
        if self.last_plan is not None and sizes == self.last_sizes:   # only caches became longer
            bound.offsets, bound.peak = self.last_plan.offsets, self.last_plan.peak
            bound.lower_bound = self.last_plan.lower_bound
            return 0
        self.last_plan = None
        with nogil:
            self.planner.plan(
                count, sizes.data(), self.first.data(), self.last.data(), self.preferred.data(),
                <int> self.preferred.size(), bound.offsets.data(), &bound.peak, &bound.lower_bound,
            )
        self.last_plan, self.last_sizes = bound, sizes
        return 0

    cdef BoundShape improved(self, BoundShape bound):
        """Search for a lower peak in the background, from now on; give what has been found so far as a plan of its own.

        Gives `bound` itself while there is nothing better.
        """
        cdef int i
        cdef BoundShape better
        if bound.search is None:
            wanted = [position for position in self.planned]
            bound.search = AnytimePlanner(
                [bound.nbytes[position] for position in wanted], list(self.first), list(self.last),
                self.planner.alignment, order=list(self.preferred) or None,
            )
            bound.search.start()
        plan = bound.search.plan
        if plan.peak >= bound.peak:
            return bound
        better = BoundShape.__new__(BoundShape)
        better.sizes, better.nbytes, better.offsets = bound.sizes, bound.nbytes, bound.offsets
        for i in range(<int> self.planned.size()):
            better.offsets[i] = plan.offsets[i]
        better.peak, better.lower_bound = plan.peak, bound.lower_bound
        better.output_bytes, better.plan_ns, better.search = bound.output_bytes, bound.plan_ns, bound.search
        return better

    def place_name(self, int position, int dim):
        """Name a dimension of an input as messages do."""
        name = self.section.inputs[position].name
        return f"input {name!r}" if dim < 0 else f"dimension {dim} of input {name!r}"

    def reason(self, int value, int dim):
        """Say why a size is what it must be, when it depends on symbols."""
        register = self.section.values[value].sizes[dim]
        if register < len(self.section.symbols):
            return f" ({self.section.symbols[register].name} everywhere)"
        opcode = self.section.size_code[register - len(self.section.symbols)][0]
        return "" if opcode == 0 else " (it follows from the other sizes)"

    cdef object sizes_text(self, const int64_t* registers):
        """List the symbols with their sizes, to end a message with."""
        sizes = ", ".join(f"{symbol.name} = {registers[i]}" for i, symbol in enumerate(self.section.symbols))
        return f" ({sizes})" if sizes else ""

    cdef object too_large(self, int position, const int64_t* registers):
        shape = [registers[self.registers[self.start[position] + i]] for i in range(self.rank[position])]
        return SizeOverflowError(
            f"value {self.section.values[position].name!r} would have shape {shape}: ExecuTorch's sizes end at "
            f"2**31 - 1 and bytes at 2**62; use smaller inputs{self.sizes_text(registers)}"
        )
