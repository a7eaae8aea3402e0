# distutils: language = c++
"""A command buffer, what it keeps open, and what it may be given."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceCore, DeviceObject
from etarena.device.vulkan.masks cimport LAYOUT_PREINITIALIZED, LAYOUT_UNDEFINED
from etarena.device.vulkan.memory cimport Buffer, Image
from etarena.device.vulkan.sync cimport QueryPool

import weakref

from ...allocator.errors import DeviceError, InputError

__all__ = ["Recording"]


@cython.no_gc_clear  # what was recorded must outlive it
cdef class Recording(DeviceObject):
    """A command pool with one command buffer, recorded anew or submitted again and again."""

    def __cinit__(self, DeviceCore core not None):
        self.start(core)
        self.c_obj.reset(new vk.CommandPool(core.c_obj, core.queue_family_index))
        self.dispatcher.reset(new vk.Dispatcher(core.c_obj))
        self.leases, self.guards, self.kept, self.layouts = [], [], set(), {}

    @property
    def handle(self) -> int:
        """The VkCommandBuffer, for commands of the application's own between ``begin`` and ``end``."""
        self.require_open()
        return self.c_obj.get().commands()

    @property
    def is_ready(self) -> bool:
        """Whether there is something recorded to submit."""
        return self.is_open and self.ready

    def begin(self, *, bint once=True, bint yields=False) -> None:
        """Forget what was recorded and record.

        Parameters
        ----------
        once : bool
            It will be submitted a single time.
        yields : bool
            What it uses can be closed while it is not at work: then what was recorded is forgotten.
        """
        self.require_open()
        self.forget()
        self.dispatcher.get().begin()
        self.c_obj.get().begin(once)
        self.recording, self.ordered, self.once, self.yields = True, False, once, yields

    def end(self) -> None:
        """End the recording.

        Raises
        ------
        DeviceError
            It can be submitted again, and leaves an image in another layout than it finds it in.
        """
        cdef vk.CommandPool* recorder = self.recorder()
        cdef Image image
        if not self.once:
            for image, layout in self.layouts.items():
                if layout not in (LAYOUT_UNDEFINED, LAYOUT_PREINITIALIZED, image.layout):
                    raise DeviceError(
                        f"an image begins in the layout {layout} and ends in {image.layout}, which does not fit when "
                        f"these commands are submitted again: bring it back with transition(image, {layout}), or "
                        "record with begin(once=True)"
                    )
        recorder.end()
        self.recording, self.ready = False, True

    def forget(self) -> None:
        """Let what was recorded be closed. Nothing is submitted after that."""
        if self.uses:
            raise DeviceError("these commands are still at work on the device: wait for them")
        self.leases, self.guards, self.recording, self.ready = [], [], False, False
        self.kept, self.layouts = set(), {}

    def give_way(self) -> None:
        """Forget what was recorded with ``yields=True``, unless it is at work: something that it uses is closed."""
        if self.yields and not self.uses and not self.recording:
            self.forget()

    def reset_queries(self, QueryPool pool not None) -> None:
        """Make all places of a pool free for new time stamps."""
        cdef vk.CommandPool* recorder = self.recorder()
        pool.require_open()
        self.keep(pool)
        recorder.reset_queries(pool.c_obj.get().number(), 0, pool.count)

    def write_timestamp(self, QueryPool pool not None, uint32_t index) -> None:
        """Write the time at which all that was recorded before is done."""
        cdef vk.CommandPool* recorder = self.recorder()
        pool.require_open()
        if index >= pool.count:
            raise InputError(f"time stamp {index} of a pool of {pool.count}")
        self.keep(pool)
        recorder.write_timestamp(pool.c_obj.get().number(), index)

    cdef vk.CommandPool* recorder(self) except NULL:
        self.require_open()
        if not self.recording:
            raise DeviceError("these commands are not being recorded: call begin first")
        return self.c_obj.get()

    cdef int require_ready(self) except -1:
        self.require_open()
        if self.recording:
            raise DeviceError("these commands are still being recorded: call end first")
        if not self.ready:
            raise DeviceError(
                "there is nothing recorded to submit: record first, with begin(once=False) if it is submitted again"
            )
        for guard in self.guards:
            guard.check()
        return 0

    cdef int keep(self, DeviceObject what) except -1:
        """Hold what is recorded open, and refuse what cannot be used."""
        if what in self.kept:
            return 0
        if what.core is not self.core:
            raise DeviceError(f"a {type(what).__name__} of another Vulkan device was given")
        if isinstance(what, (Buffer, Image)) and what.memory is None and not what.adopted:
            raise DeviceError(f"this Vulkan {type(what).__name__} has no memory: bind it first")
        guard = getattr(what, "guard", None)
        if guard is not None:
            guard.check()
            self.guards.append(guard)
        self.leases.append(what.lease("recorded commands"))
        if self.yields:
            if what.yielding is None:
                what.yielding = weakref.WeakSet()
            what.yielding.add(self)
        self.kept.add(what)
        return 0

    cdef int note_layout(self, Image image) except -1:
        """Remember the layout in which an image is found; before it changes."""
        self.layouts.setdefault(image, image.layout)
        return 0

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()
            self.dispatcher.reset()
        self.leases, self.guards, self.kept, self.layouts = [], [], set(), {}

    def __dealloc__(self):
        self.c_obj.reset()  # before what the leases keep
        self.dispatcher.reset()


cdef int require_range(Buffer buffer, uint64_t offset, nbytes, uint32_t usage, str name) except -1:
    """Refuse bytes that are not inside an open buffer of that usage."""
    buffer.require_open()
    if not buffer.usage & usage:
        raise DeviceError(f"the buffer was made without the usage {name}, which this needs: add it")
    if not 0 < nbytes <= buffer.nbytes or offset > buffer.nbytes - nbytes:
        raise DeviceError(f"bytes {offset} to {offset + nbytes} are not inside a buffer of {buffer.nbytes} bytes")
    return 0


cdef int require_image(Image image, uint32_t usage, str name) except -1:
    """Refuse a closed image, and one without that usage."""
    image.require_open()
    if not image.usage & usage:
        raise DeviceError(f"the image was made without the usage {name}, which this needs: add it")
    return 0
