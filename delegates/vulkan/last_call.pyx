# distutils: language = c++
"""The same call again: its commands are submitted without another look at anything but addresses."""

from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from etarena.delegates.repeating cimport Repeating
from etarena.device.abi cimport ETARENA_TENSOR, etarena_argument

__all__ = ["LastCall"]

cdef int CPU = 0


cdef class LastCall(Repeating):
    """What a delegate keeps of its last call, if all of its tensors were in an arena."""

    cdef bint repeat(
        self, const etarena_argument* arguments, uint32_t count, void* scratch, uint64_t nbytes
    ) except -1:
        self.can_know = describe(arguments, count, scratch, nbytes, &self.asked)
        if self.commands is None or not self.can_know or self.asked != self.known:
            return False
        if not self.commands.is_ready or self.arena.is_closed or self.arena.activation_committed < self.end:
            return False
        self.can_know = False
        self.device.run(self.commands, None)
        return True

    def take_known(self) -> bool:
        """Whether the call that is being made can be repeated from what `repeat` saw of it; asked once a call."""
        found, self.can_know = self.can_know, False
        return found

    def remember(self, device, commands, arena) -> None:
        """Keep the commands of the call that `repeat` saw last.

        Parameters
        ----------
        device : Device
            That runs them.
        commands : Commands
            Recorded for this call.
        arena : Arena
            Where all memory that they are guarded for is.
        """
        self.device, self.commands, self.arena = device, commands, arena
        self.end = max([guard.end for guard in commands.guards], default=0)
        self.known.swap(self.asked)

    def forget(self) -> None:
        """Keep nothing."""
        self.device = self.commands = self.arena = None
        self.can_know = False


cdef bint describe(
    const etarena_argument* arguments, uint32_t count, const void* scratch, uint64_t nbytes, vector[uint64_t]* out
) noexcept:
    """Write down what decides about the commands of a call; False if that is not all in plain memory."""
    cdef uint32_t i
    cdef int d
    out.clear()
    out.push_back(count)
    out.push_back(<uintptr_t> scratch)
    out.push_back(nbytes)
    for i in range(count):
        out.push_back(<uint64_t> arguments[i].kind)
        if arguments[i].kind != ETARENA_TENSOR:
            continue    # numbers decide nothing
        if arguments[i].device.type != CPU:
            return False
        out.push_back(<uint64_t> arguments[i].dtype)
        out.push_back(<uint64_t> arguments[i].rank)
        out.push_back(<uintptr_t> arguments[i].data)
        for d in range(arguments[i].rank):
            out.push_back(<uint64_t> arguments[i].sizes[d])
    return True
