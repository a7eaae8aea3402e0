# distutils: language = c++
"""Scratch memory of a method's delegates, as buffers of its plan.

Each call of a delegate that the plan serves has one buffer, which lives during the call's instruction alone.
"""

from collections import Counter

from libc.stdint cimport int32_t, int64_t, uint8_t

from etarena._runtime cimport NativeMethod
from etarena.delegates.contract cimport Argument, ScratchUser


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
    """

    def __cinit__(self, section, NativeMethod native, dict found not None):
        self.users = []
        self.fixed_start.push_back(0)
        self.start.push_back(0)
        position = {value.index: i for i, value in enumerate(section.values)}
        calls = Counter(delegate.index for delegate in section.delegates)
        outside = set()
        for delegate in section.delegates:
            user = found.get(delegate.index)
            if user is not None and calls[delegate.index] > 1:
                (<ScratchUser> user).leave()   # one runtime cannot be shaped for two calls at once
                user = None
            if user is None:
                outside.add(delegate.id)
                continue
            self.users.append(user)
            self.instruction.push_back(delegate.instruction)
            for index in delegate.arguments:
                self.slots.push_back(position.get(index, -1) if index in position else self._fix(native, index))
            self.start.push_back(<int> self.slots.size())
        self.outside = tuple(sorted(outside))

    def _fix(self, NativeMethod native, index):
        """Remember the shape of an argument that no plan changes, such as a constant; anything else has no sizes."""
        found = native.tensor(index)
        for size in found[1] if found is not None else ():
            self.fixed_sizes.push_back(size)
        for dim in found[2] if found is not None else ():
            self.fixed_orders.push_back(dim)
        self.fixed_start.push_back(<int> self.fixed_sizes.size())
        return -<int> self.fixed_start.size() + 1

    cdef int count(self) noexcept:
        return <int> self.instruction.size()

    cdef int64_t measure(self, int call, const int32_t* sizes, const int32_t* starts, const int32_t* ranks,
                         const uint8_t* orders) except -1:
        """Bytes that one call needs, given the dimensions of all values."""
        self.gather(call, sizes, starts, ranks, orders)
        return (<ScratchUser> self.users[call]).measure(self.arguments)

    cdef int place(self, int call, const int32_t* sizes, const int32_t* starts, const int32_t* ranks,
                   const uint8_t* orders, char* address, int64_t nbytes) except -1:
        """Give one call its scratch."""
        self.gather(call, sizes, starts, ranks, orders)
        return (<ScratchUser> self.users[call]).place(self.arguments, address, nbytes)

    cdef int gather(self, int call, const int32_t* sizes, const int32_t* starts, const int32_t* ranks,
                    const uint8_t* orders) noexcept:
        cdef int i, slot, fixed
        cdef Argument argument
        self.arguments.clear()
        for i in range(self.start[call], self.start[call + 1]):
            slot = self.slots[i]
            if slot >= 0:
                argument.rank = ranks[slot]
                argument.sizes = sizes + starts[slot]
                argument.dim_order = orders + starts[slot]
            else:
                fixed = -slot - 1
                argument.rank = self.fixed_start[fixed + 1] - self.fixed_start[fixed]
                argument.sizes = self.fixed_sizes.data() + self.fixed_start[fixed]
                argument.dim_order = self.fixed_orders.data() + self.fixed_start[fixed]
            self.arguments.push_back(argument)
        return 0
