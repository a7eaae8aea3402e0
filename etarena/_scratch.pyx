# distutils: language = c++
"""Scratch memory of a method's delegates, as buffers of its plan.

Each call of a delegate that the plan serves has one buffer, which lives during the call's instruction alone. What
delegates want of their arguments is joined: a planned buffer gets the largest alignment and padding of its users.
"""

from collections import Counter

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from etarena._runtime cimport NativeMethod
from etarena.allocator.placement cimport step_for
from etarena.allocator.planner cimport OffsetPlanner
from etarena.delegates.contract cimport Argument, NativeUser, ScratchUser
from etarena.delegates.foreign cimport ForeignUser

from .allocator.sizes import Opcode
from .device.copies import Copy, allow_copy, refuses_copies, write_down

cdef int MOST_DESCRIBED = 256              # copies that are not described anew when they are made again
cdef int64_t LARGEST_MULTIPLE = <int64_t> 1 << 40   # bytes

cdef enum:
    LINE = 64                                       # bytes; what every planned buffer of that size is aligned to
    TENSOR = 1
    INT = 2
    DOUBLE = 3
    BOOL = 4


cdef class DelegateScratch:
    """What the delegates of a loaded method need.

    Parameters
    ----------
    section
        The method's plan section.
    native
        The loaded method.
    found
        ScratchUser by delegate index; None for a delegate that keeps its scratch to itself.

    Raises
    ------
    RuntimeFailure
        If a delegate wants something impossible of its arguments, or fails when it is asked.
    """

    def __cinit__(self, section, NativeMethod native, dict found not None):
        cdef ScratchUser user
        self.users, self.calls, self.section, self.described = [], [], section, {}
        self.fixed_start.push_back(0)
        self.start.push_back(0)
        position = {value.index: i for i, value in enumerate(section.values)}
        for value in section.values:
            self.dtypes.push_back(value.dtype)
            self.device_types.push_back(value.device_type)
            self.device_indices.push_back(value.device_index)
            self.joined.push_back(section.values[value.storage].is_planned)
        self.multiples.assign(len(section.values), 1)
        self.alignments.assign(len(section.values), 0)
        calls = Counter(delegate.index for delegate in section.delegates)
        outside = set()
        for delegate in section.delegates:
            user = found.get(delegate.index)
            if user is not None:
                user = user.at_call(delegate.instruction, calls[delegate.index] == 1)
            if user is None:
                outside.add(delegate.id)
                continue
            self.users.append(user)
            self.calls.append(delegate)
            self.has_foreign = self.has_steps = self.has_foreign or isinstance(user, ForeignUser)
            self.instruction.push_back(delegate.instruction)
            for index in delegate.arguments:
                self.slots.push_back(position.get(index, -1) if index in position else self._fix(native, index))
            self.start.push_back(<int> self.slots.size())
        self.unplanned = tuple(sorted(outside))
        self._join()

    def _fix(self, NativeMethod native, index):
        """Remember an argument that no plan changes: the shape of a constant, or a number as it is now."""
        cdef Argument argument = Argument(0, 0, 0, NULL, NULL, 0, 0, 0, 0, False)
        found = native.tensor(index)
        number = native.number(index) if found is None else None
        if found is not None:
            argument.kind, argument.dtype, argument.rank = TENSOR, found[0], len(found[1])
            for size in found[1]:
                self.fixed_sizes.push_back(size)
            for dim in found[2]:
                self.fixed_orders.push_back(dim)
        elif isinstance(number, bool):
            argument.kind, argument.integer = BOOL, number
        elif isinstance(number, int):
            argument.kind, argument.integer = INT, number
        elif isinstance(number, float):
            argument.kind, argument.number = DOUBLE, number
        self.fixed.push_back(argument)
        self.fixed_start.push_back(<int> self.fixed_sizes.size())
        return -<int> self.fixed.size()

    def _join(self):
        """Ask every delegate what it wants of its arguments, and promise what the plan can give."""
        cdef int call, i, owner
        cdef int64_t alignment, multiple
        cdef ScratchUser user
        for value in self.section.values:
            self.starts.push_back(<int> self.sizes.size())
            self.ranks.push_back(len(value.sizes))
            for register, dim in zip(value.sizes, value.dim_order):
                self.sizes.push_back(self._known_size(register))
                self.orders.push_back(dim)
        self.sizes.push_back(0)   # never empty: its address is passed on
        self.orders.push_back(0)
        self.arguments.resize(self.count())
        for call in range(self.count()):
            self.gather(call)
            user = <ScratchUser> self.users[call]
            user.ask(self.arguments[call])
            self.natives.push_back(user.native())
            for i in range(<int> self.arguments[call].size()):
                alignment, multiple = user.alignment_wish(i), user.size_wish(i)
                self.has_wishes = self.has_wishes or isinstance(user, ForeignUser) and (<ForeignUser> user).wishes(i)
                if self.arguments[call][i].joined:
                    owner = self.section.values[self.slots[self.start[call] + i]].storage
                    self.alignments[owner] = max(self.alignments[owner], alignment)
                    self.has_steps = self.has_steps or alignment > LINE
                    multiple = least_common_multiple(self.multiples[owner], max(multiple, 1))
                    if multiple <= LARGEST_MULTIPLE:
                        self.multiples[owner] = multiple
                        self.has_multiples = self.has_multiples or multiple > 1
                    else:
                        self._give_up(owner)
        for call in range(self.count()):
            self.gather(call)   # now that it is known what is joined

    def _give_up(self, owner):
        """The wishes about one memory cannot be joined: each delegate gets a copy that is as it wants it."""
        for position, value in enumerate(self.section.values):
            if value.storage == owner:
                self.joined[position] = False

    def _known_size(self, register):
        """A size that is the same in every run; -1 for any other."""
        position = register - len(self.section.symbols)
        if position >= 0 and self.section.size_code[position].opcode == Opcode.CONST:
            return self.section.size_code[position].a
        return -1

    cdef tuple take_outside(self):
        """Backends that keep scratch of their own, or used some since this was asked last."""
        if not self.has_foreign:
            return self.unplanned
        found = set()
        for user in self.users:
            if isinstance(user, ForeignUser) and (<ForeignUser> user).take_outside():
                found.add(user.backend)
        return tuple(sorted({*self.unplanned, *found})) if found else self.unplanned

    cdef int count(self) noexcept:
        return <int> self.instruction.size()

    cdef void align(self, OffsetPlanner planner, const vector[int32_t]& planned, const int64_t* sizes) noexcept:
        """Say how the buffers of the next plan are aligned, those of values first, if not by the planner's own rule."""
        cdef size_t i
        planner.placement.alignments = NULL
        if not self.has_steps:
            return
        self.steps.resize(planned.size() + self.count())
        for i in range(self.steps.size()):
            self.steps[i] = step_for(sizes[i], LINE)
            if i < planned.size():
                self.steps[i] = max(self.steps[i], self.alignments[planned[i]])
            elif self.has_foreign:
                self.steps[i] = LINE
        planner.placement.alignments = self.steps.data()

    cdef int64_t padded(self, int position, int64_t nbytes) noexcept:
        """Bytes that the memory of a value takes in the plan."""
        cdef int64_t multiple = self.multiples[position]
        return nbytes if multiple <= 1 else (nbytes + multiple - 1) // multiple * multiple

    cdef void take_sizes(self, const vector[int32_t]& sizes) noexcept:
        """Note the dimensions of all values, one after another, for the calls to come."""
        memcpy(self.sizes.data(), sizes.data(), sizes.size() * sizeof(int32_t))

    cdef int64_t measure(self, int call) except -1:
        """Bytes that one call needs, given the sizes taken last."""
        cdef int64_t nbytes = 0
        cdef const NativeUser* user = &self.natives[call]
        if user.measure != NULL and user.measure(user.runtime, &nbytes) == 0:
            return nbytes
        return (<ScratchUser> self.users[call]).measure(self.arguments[call])

    cdef int place(self, int call, char* address, int64_t nbytes) except -1:
        """Give one call its scratch."""
        cdef const NativeUser* user = &self.natives[call]
        if user.place != NULL and user.place(user.runtime, address, nbytes) == 0:
            return 0
        return (<ScratchUser> self.users[call]).place(self.arguments[call], address, nbytes)

    cdef int gather(self, int call) except -1:
        """List the arguments of a call. Their sizes are those taken last."""
        cdef int i, slot
        cdef Argument argument
        self.arguments[call].clear()
        for i in range(self.start[call], self.start[call + 1]):
            slot = self.slots[i]
            if slot >= 0:
                argument = Argument(
                    TENSOR, self.dtypes[slot], self.ranks[slot], self.sizes.data() + self.starts[slot],
                    self.orders.data() + self.starts[slot], 0, 0, self.device_types[slot], self.device_indices[slot],
                    self.joined[slot],
                )
            else:
                slot = -slot - 1
                argument = self.fixed[slot]
                argument.sizes = self.fixed_sizes.data() + self.fixed_start[slot]
                argument.dim_order = self.fixed_orders.data() + self.fixed_start[slot]
            self.arguments[call].push_back(argument)
        return 0

    cdef int check_copies(self, NativeMethod native) except -1:
        """Refuse what the next calls would have to copy, if copies are refused: everything has its address now."""
        if not self.has_wishes or not refuses_copies():
            return 0
        for user, delegate in zip(self.users, self.calls):
            if isinstance(user, ForeignUser):
                tensors = [(native.tensor(index), native.device(index)) for index in delegate.arguments]
                for argument, nbytes, why in user.misfits(tensors):
                    allow_copy(self._cause(delegate, argument, why), nbytes)
        return 0

    cdef list take_copies(self):
        """The copies that delegates' wishes made since this was asked last."""
        cdef list found = []
        if not self.has_wishes:
            return found
        for user in self.users:
            if isinstance(user, ForeignUser):
                for made in (<ForeignUser> user).take_copies():
                    copy = self.described.get(made)
                    if copy is None:
                        copy = self.described[made] = self._describe(*made)
                    write_down(copy)
                    found.append(copy)
        return found

    def _describe(self, instruction, argument, nbytes, why):
        """The ledger's entry of a copy."""
        while len(self.described) >= MOST_DESCRIBED:   # sizes may differ from call to call
            self.described.pop(next(iter(self.described)))
        delegate = next(delegate for delegate in self.calls if delegate.instruction == instruction)
        return Copy(self._cause(delegate, argument, why), nbytes)

    def staged(self):
        """Say what delegates' wishes make calls copy, or may, in the plan that was measured last."""
        return tuple(
            self._cause(delegate, argument, why)
            for user, delegate in zip(self.users, self.calls) if isinstance(user, ForeignUser)
            for argument, why in user.staged or ()
        )

    def _cause(self, delegate, argument, why):
        """Say which argument of which delegate is copied because of which requirement."""
        names = {value.index: value.name for value in self.section.values}
        name = names.get(delegate.arguments[argument], "a constant")
        return (
            f"argument {argument} ({name}) of delegate {delegate.id!r} at instruction {delegate.instruction} does not "
            f"meet the delegate's requirement {why}"
        )


cdef int64_t least_common_multiple(int64_t a, int64_t b) noexcept:
    cdef int64_t x = a, y = b
    while y != 0:
        x, y = y, x % y
    return a // x * b
