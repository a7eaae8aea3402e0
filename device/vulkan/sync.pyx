# distutils: language = c++
"""Fences, semaphores, query pools."""

cimport cython
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceCore, DeviceObject

from ...allocator.errors import DeviceError, InputError
from .errors import WaitTimeoutError

__all__ = ["Fence", "QueryPool", "Semaphore", "nanoseconds"]


def nanoseconds(timeout) -> int:
    """Read a timeout in seconds; None: no end."""
    if timeout is None:
        return UINT64_MAX
    if not timeout >= 0:
        raise InputError(f"timeout={timeout!r}: expected seconds from 0 on, or None to wait without end")
    return min(int(timeout * 1e9), 1 << 62)


@cython.final
cdef class Fence(DeviceObject):
    """A VkFence: whether the device is done with what was submitted."""

    def __cinit__(self, DeviceCore core not None):
        self.start(core)
        self.c_obj.reset(new vk.Fence(core.c_obj))

    @property
    def handle(self) -> int:
        """The VkFence."""
        self.require_open()
        return self.c_obj.get().number()

    def done(self) -> bool:
        """Whether it was signalled, or never will be because the device is lost."""
        self.require_open()
        return self.c_obj.get().done()

    def wait(self, timeout=None) -> bool:
        """Wait so many seconds; False: it took longer."""
        cdef uint64_t limit = nanoseconds(timeout)
        cdef cbool done
        in_use = self.lease("a wait")
        with nogil:
            done = self.c_obj.get().wait(limit)
        in_use.end()
        return done

    def wait_quietly(self, timeout) -> bool:
        """As `wait`, but of a device that is lost too: whether the driver is through with it. Never fails."""
        cdef uint64_t limit = nanoseconds(timeout)
        cdef cbool done
        in_use = self.lease("a wait")
        with nogil:
            done = self.c_obj.get().wait_quietly(limit)
        in_use.end()
        return done

    def reset(self) -> None:
        """Make it unsignalled."""
        self.require_open()
        self.c_obj.get().reset()

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()


@cython.final
cdef class Semaphore(DeviceObject):
    """A VkSemaphore, binary or with a timeline.

    Parameters
    ----------
    core : DeviceCore
        Whose.
    timeline : bool
        Whether it counts.
    value : int
        Where a timeline begins.
    handle : int
        The application's VkSemaphore, used and not destroyed; 0: make one.
    """

    def __cinit__(self, DeviceCore core not None, *, bint timeline=False, uint64_t value=0, uint64_t handle=0):
        self.start(core)
        if handle != 0:
            self.c_obj.reset(new vk.Semaphore(core.c_obj, handle))
        else:
            self.c_obj.reset(new vk.Semaphore(core.c_obj, timeline, value))
        self.timeline, self.adopted = timeline, handle != 0

    @property
    def handle(self) -> int:
        """The VkSemaphore."""
        self.require_open()
        return self.c_obj.get().number()

    @property
    def value(self) -> int:
        """How far a timeline has come."""
        self.require_timeline()
        return self.c_obj.get().value()

    def wait(self, uint64_t value, timeout=10.0) -> None:
        """Wait until a timeline has reached a value.

        Raises
        ------
        WaitTimeoutError
            It took more than `timeout` seconds.
        """
        cdef uint64_t limit = nanoseconds(timeout)
        cdef cbool done
        self.require_timeline()
        in_use = self.lease("a wait")
        with nogil:
            done = self.c_obj.get().wait(value, limit)
        in_use.end()
        if not done:
            raise WaitTimeoutError(
                f"a timeline semaphore did not reach {value} within {timeout} s, it is at {self.value}: is whoever "
                "signals it running?",
                code=2, code_name="VK_TIMEOUT", call="vkWaitSemaphores",
            )

    def signal(self, uint64_t value) -> None:
        """Set a timeline to a larger value."""
        self.require_timeline()
        now = self.c_obj.get().value()
        if value <= now:
            raise InputError(f"a timeline semaphore at {now} cannot be signalled to {value}: it only grows")
        self.c_obj.get().signal(value)

    cdef int require_timeline(self) except -1:
        self.require_open()
        if not self.timeline:
            raise DeviceError("a binary semaphore has no value and the CPU cannot wait for it: make a timeline")
        return 0

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()


@cython.final
cdef class QueryPool(DeviceObject):
    """Places for so many time stamps of the device."""

    def __cinit__(self, DeviceCore core not None, uint32_t count):
        if count == 0:
            raise InputError("a query pool of 0 time stamps was asked for")
        self.start(core)
        self.c_obj.reset(new vk.QueryPool(core.c_obj, count))
        self.count = count

    @property
    def handle(self) -> int:
        """The VkQueryPool."""
        self.require_open()
        return self.c_obj.get().number()

    def ticks(self) -> list:
        """All time stamps, in ticks of the device.

        Raises
        ------
        DeviceError
            Some were not written yet: wait for the work that writes them.
        """
        cdef vector[uint64_t] found
        self.require_open()
        if not self.c_obj.get().read(0, self.count, &found):
            raise DeviceError("not all time stamps are written: wait for the work that writes them")
        return found

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()
