# distutils: language = c++
"""Recorded commands and their submission."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.copy_commands cimport CopyCommands
from etarena.device.vulkan.core cimport DeviceCore
from etarena.device.vulkan.masks cimport (
    HOST_READ,
    LAYOUT_GENERAL,
    LAYOUT_PREINITIALIZED,
    LAYOUT_SHADER_READ_ONLY,
    LAYOUT_UNDEFINED,
    MEMORY_WRITE,
    SHADER_READ,
    SHADER_WRITE,
    STAGE_ALL,
    STAGE_COMPUTE,
    STAGE_HOST,
    USAGE_SAMPLED,
    USAGE_STORAGE_BUFFER,
    USAGE_STORAGE_IMAGE,
)
from etarena.device.vulkan.memory cimport Buffer, Image
from etarena.device.vulkan.pipelines cimport Pipeline
from etarena.device.vulkan.recording cimport require_image, require_range
from etarena.device.vulkan.sync cimport Fence, Semaphore

from ...allocator.errors import DeviceError, InputError
from .sync import nanoseconds

__all__ = ["Commands", "submit"]

cdef uint32_t FAMILY_EXTERNAL = 0xFFFFFFFE  # VK_QUEUE_FAMILY_EXTERNAL
cdef uint32_t FAMILY_IGNORED = 0xFFFFFFFF   # VK_QUEUE_FAMILY_IGNORED


@cython.final
@cython.no_gc_clear  # what was recorded must outlive it
cdef class Commands(CopyCommands):
    """Commands of a device, recorded between ``begin`` and ``end`` and then submitted."""

    def dispatch(self, Pipeline pipeline not None, resources, bytes push not None, groups) -> None:
        """Run a shader.

        The first dispatch of a recording sees all that was submitted before. Dispatches run side by side unless
        `barrier` stands between them. Copies and later submissions wait for all of them.

        Parameters
        ----------
        pipeline
            Of this device.
        resources
            For each binding in order bytes of a `Buffer` as ``(buffer, offset, nbytes)``, or an `Image`: a storage
            image in the layout GENERAL, one that is sampled in that or in SHADER_READ_ONLY_OPTIMAL.
        push
            The push constants, ``pipeline.push_bytes`` bytes.
        groups
            How many workgroups in x, y and z.

        Raises
        ------
        InputError
            Another number or kind of resources, sizes that do not fit, more groups than the device's limits allow.
        DeviceError
            Something closed, of another device, without the usage, in another layout.
        """
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vector[vk.Bound] bound
        cdef vk.Groups counts
        cdef const char* data = push
        pipeline.require_open()
        if len(push) != pipeline.push_bytes:
            raise InputError(f"{len(push)} bytes of push constants were given, the pipeline has {pipeline.push_bytes}")
        read_groups(self.core, groups, &counts)
        self.keep(pipeline)
        self.bind(pipeline, tuple(resources), &bound)
        if not self.ordered:
            recorder.barrier(STAGE_ALL, MEMORY_WRITE, STAGE_COMPUTE, SHADER_READ | SHADER_WRITE)
            self.ordered = True
        self.dispatcher.get().dispatch(recorder.commands(), pipeline.c_obj.get()[0], bound, data, counts)

    def barrier(self) -> None:
        """Let dispatches recorded before be done, and seen by those that follow."""
        self.recorder().barrier(STAGE_COMPUTE, SHADER_WRITE, STAGE_COMPUTE, SHADER_READ | SHADER_WRITE)

    def host_barrier(self) -> None:
        """Let the CPU see, once these commands are done, what was recorded before."""
        self.recorder().barrier(STAGE_ALL, MEMORY_WRITE, STAGE_HOST, HOST_READ)

    def release(self, what, family, layout=None) -> None:
        """Give a buffer or an image to another queue family, which must acquire it in the same way.

        Parameters
        ----------
        what : Buffer, (Buffer, offset, nbytes) or Image
            Last used on this device's queue.
        family : int or ``"external"``
            That gets it: an index, or that of whoever shares the memory from outside. This queue's own family: only
            the barrier and the change of layout are recorded, and nobody must acquire.
        layout : int, optional
            VkImageLayout of an image after that; by default the one it has.
        """
        old = what.layout if isinstance(what, Image) else LAYOUT_UNDEFINED
        self.transfer(what, family, old, old if layout is None else layout, True)

    def acquire(self, what, family, layout=None, old_layout=None) -> None:
        """Take a buffer or an image from another queue family, which released it in the same way.

        Parameters
        ----------
        what, family
            As for `release`; the family is the one that gave it away.
        layout, old_layout : int, optional
            VkImageLayout of an image after and before that, as the other side recorded them; by default the one that
            ``image.layout`` says it has.
        """
        if old_layout is None:
            old_layout = what.layout if isinstance(what, Image) else LAYOUT_UNDEFINED
        self.transfer(what, family, old_layout, old_layout if layout is None else layout, False)

    def submit_and_wait(self, Fence fence not None, timeout=None, lock=None) -> bool:
        """Give ended commands to the queue and wait until they are done; `Device.run` is the way to call it.

        Parameters
        ----------
        fence : Fence
            Not signalled. It is signalled after that.
        timeout : float, optional
            Seconds; None: no end.
        lock : context manager, optional
            Held while the commands are given to the queue.

        Returns
        -------
        bool
            False: not done in time; they are at work, and ``fence.work`` keeps them open.
        """
        cdef DeviceCore core = self.core
        cdef uint64_t number, signalled, limit = nanoseconds(timeout)
        cdef cbool done
        self.require_ready()
        fence.require_open()
        if fence.core is not core:
            raise DeviceError("a Fence of another Vulkan device was given")
        if self.uses or fence.work is not None:
            raise DeviceError("these commands are still at work on the device: wait for them, or record others")
        work = self.lease("work of the device")
        number, signalled = self.c_obj.get().commands(), fence.c_obj.get().number()
        if lock is None:
            with nogil:
                core.queue.get().submit_alone(number, signalled)
        else:
            with lock, nogil:
                core.queue.get().submit_alone(number, signalled)
        fence.work = work
        self.ready = not self.once
        with nogil:
            done = fence.c_obj.get().wait(limit)
        if done:
            fence.work = None
            work.end()
        return done

    cdef int bind(self, Pipeline pipeline, tuple resources, vector[vk.Bound]* bound) except -1:
        """See what is bound, and keep it open."""
        cdef const vk.Limits* limits = &self.core.c_obj.get().limits()
        cdef const char* letters = pipeline.letters
        cdef Py_ssize_t count = len(pipeline.letters), index
        cdef Buffer buffer
        cdef vk.Bound one
        if len(resources) != count:
            raise InputError(f"{len(resources)} resources were given, the pipeline binds {count}")
        bound.reserve(count)
        for index in range(count):
            what = resources[index]
            if letters[index] != b"b":
                self.bind_image(pipeline, index, what, &one)
            else:
                if type(what) is not tuple or len(<tuple>what) != 3 or not isinstance((<tuple>what)[0], Buffer):
                    raise InputError(f"binding {index}: expected (buffer, offset, nbytes), got {what!r}")
                buffer, offset, nbytes = <tuple>what
                require_bytes(buffer, offset, nbytes, limits)
                one.handle, one.offset, one.nbytes, one.layout = buffer.c_obj.get().number(), offset, nbytes, 0
                self.keep(buffer)
            bound.push_back(one)
        return 0

    cdef int bind_image(self, Pipeline pipeline, Py_ssize_t index, what, vk.Bound* bound) except -1:
        cdef bint sampled = pipeline.bindings[index] == "t"
        cdef Image image
        if not isinstance(what, Image):
            raise InputError(f"binding {index}: expected an Image, got {what!r}")
        image = what
        if sampled:
            require_image(image, USAGE_SAMPLED, "SAMPLED")
        else:
            require_image(image, USAGE_STORAGE_IMAGE, "STORAGE")
        if image.layout != LAYOUT_GENERAL and not (sampled and image.layout == LAYOUT_SHADER_READ_ONLY):
            raise DeviceError(
                f"binding {index}: the image is in the layout {image.layout}: bring it into {LAYOUT_GENERAL} (GENERAL) "
                "with transition()"
            )
        pipeline.require_image_kind(index, image.depth > 1, image.format)
        self.keep(image)
        self.note_layout(image)
        bound.handle, bound.offset, bound.nbytes, bound.layout = image.view, 0, 0, image.layout
        return 0

    cdef int transfer(self, what, family, uint32_t old_layout, uint32_t new_layout, bint give) except -1:
        """Record one side of a change of owner."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vk.Owners owners
        cdef Buffer buffer
        cdef uint32_t other = family_number(self.core, family)
        cdef uint32_t mine = self.core.queue_family_index
        if isinstance(what, Buffer):
            what = what, 0, what.nbytes
        owners.give = give
        owners.source, owners.to = (mine, other) if give else (other, mine)
        if other == mine:
            owners.source = owners.to = FAMILY_IGNORED
        if isinstance(what, Image):
            return self.transfer_image(what, old_layout, new_layout, owners)
        if type(what) is not tuple or len(<tuple>what) != 3 or not isinstance((<tuple>what)[0], Buffer):
            raise InputError(f"expected a Buffer, (buffer, offset, nbytes) or an Image, got {what!r}")
        buffer, offset, nbytes = <tuple>what
        require_numbers(offset, nbytes)
        require_range(buffer, offset, nbytes, 0xFFFFFFFF, "")
        self.keep(buffer)
        recorder.transfer_buffer(buffer.c_obj.get().number(), offset, nbytes, owners)
        return 0

    cdef int transfer_image(self, Image image, uint32_t old_layout, uint32_t new_layout, vk.Owners owners) except -1:
        image.require_open()
        if new_layout in (LAYOUT_UNDEFINED, LAYOUT_PREINITIALIZED):
            raise InputError("an image changes its owner with its contents: say its layout, which is not UNDEFINED")
        self.keep(image)
        self.note_layout(image)
        self.recorder().transfer_image(image.c_obj.get().number(), old_layout, new_layout, owners)
        image.layout = new_layout
        return 0


def submit(Commands commands not None, wait, signal, Fence fence not None) -> None:
    """Give recorded commands to the device's queue; returns before they are done.

    Parameters
    ----------
    commands
        Ended.
    wait, signal
        Pairs of semaphore and value; the value counts for timelines only.
    fence
        Signalled when all is done.
    """
    cdef DeviceCore core = commands.core
    cdef vector[vk.Point] before = points(core, wait)
    cdef vector[vk.Point] after = points(core, signal)
    cdef Semaphore semaphore
    cdef uint64_t number, done
    commands.require_ready()
    fence.require_open()
    require_binary_order(wait, signal)
    number, done = commands.c_obj.get().commands(), fence.c_obj.get().number()
    with nogil:
        core.queue.get().submit(number, before, after, done)
    commands.ready = not commands.once
    for semaphore, _ in wait:
        semaphore.signal_due = False
    for semaphore, _ in signal:
        semaphore.signal_due = not semaphore.timeline


cdef vector[vk.Point] points(DeviceCore core, pairs) except *:
    cdef vector[vk.Point] out
    cdef vk.Point point
    cdef Semaphore semaphore
    for semaphore, value in pairs:
        semaphore.require_open()
        if semaphore.core is not core:
            raise DeviceError("a semaphore of another Vulkan device was given")
        point.semaphore, point.timeline = semaphore.c_obj.get().number(), semaphore.timeline
        point.value = value
        out.push_back(point)
    return out


cdef int require_binary_order(wait, signal) except -1:
    """Refuse binary semaphores that would never be signalled, or twice. Of the application's nothing is known."""
    cdef Semaphore semaphore
    for semaphore, _ in wait:
        if not semaphore.timeline and not semaphore.adopted and not semaphore.signal_due:
            raise DeviceError("nothing submitted signals this binary semaphore: the device would wait for ever")
    waited = [semaphore for semaphore, _ in wait]
    for semaphore, _ in signal:
        if semaphore.signal_due and semaphore not in waited:
            raise DeviceError("this binary semaphore is signalled already: wait for it first")
    return 0


cdef int read_groups(DeviceCore core, groups, vk.Groups* counts) except -1:
    cdef const vk.Limits* limits = &core.c_obj.get().limits()
    try:
        counts.x, counts.y, counts.z = groups
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"groups={groups!r}: three numbers from 1 on were expected") from error
    if not (
        0 < counts.x <= limits.maxComputeWorkGroupCount[0] and 0 < counts.y <= limits.maxComputeWorkGroupCount[1]
        and 0 < counts.z <= limits.maxComputeWorkGroupCount[2]
    ):
        most = " x ".join(str(limits.maxComputeWorkGroupCount[axis]) for axis in range(3))
        raise InputError(f"{groups} workgroups: 1 to {most} are possible on this device")
    return 0


cdef int require_numbers(offset, nbytes) except -1:
    if not isinstance(offset, int) or not isinstance(nbytes, int) or offset < 0 or offset >> 64:
        raise InputError(f"{nbytes!r} bytes from {offset!r} on: whole numbers were expected")
    return 0


cdef int require_bytes(Buffer buffer, offset, nbytes, const vk.Limits* limits) except -1:
    """Refuse bytes of a buffer that a shader may not be given."""
    cdef uint64_t step = limits.minStorageBufferOffsetAlignment
    require_numbers(offset, nbytes)
    require_range(buffer, offset, nbytes, USAGE_STORAGE_BUFFER, "STORAGE_BUFFER")
    if <uint64_t>offset % step:
        raise DeviceError(f"a shader of this device reads from a multiple of {step} bytes on, not from {offset}")
    if nbytes > limits.maxStorageBufferRange:
        raise DeviceError(f"{nbytes} bytes: a shader of this device sees {limits.maxStorageBufferRange} of a buffer")
    return 0


cdef uint32_t family_number(DeviceCore core, family) except? 0:
    """Read a queue family."""
    count = core.c_obj.get().family_count()
    if family == "external":
        return FAMILY_EXTERNAL
    if isinstance(family, bool) or not isinstance(family, int) or not 0 <= family < count:
        raise InputError(f"queue family {family!r}: the device has {count}, counted from 0; or 'external'")
    return family
