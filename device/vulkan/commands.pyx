# distutils: language = c++
"""Recorded commands and their submission."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk
from etarena.device.vulkan.core cimport DeviceCore, DeviceObject
from etarena.device.vulkan.memory cimport Buffer, Image
from etarena.device.vulkan.pipelines cimport Pipeline
from etarena.device.vulkan.sync cimport Fence, QueryPool, Semaphore

from ...allocator.errors import DeviceError, InputError

__all__ = ["Commands", "submit"]

# Stages and accesses of VkPipelineStageFlagBits and VkAccessFlagBits.
cdef uint32_t STAGE_TRANSFER = 0x1000, STAGE_HOST = 0x4000, STAGE_ALL = 0x10000
cdef uint32_t TRANSFER_READ = 0x800, TRANSFER_WRITE = 0x1000
cdef uint32_t STAGE_COMPUTE = 0x800, SHADER_READ = 0x20, SHADER_WRITE = 0x40
cdef uint32_t HOST_READ = 0x2000, MEMORY_READ = 0x8000, MEMORY_WRITE = 0x10000
cdef uint32_t LAYOUT_UNDEFINED = 0, LAYOUT_GENERAL = 1, LAYOUT_TRANSFER_SRC = 6, LAYOUT_TRANSFER_DST = 7
cdef uint32_t USAGE_SRC = 1, USAGE_DST = 2  # TRANSFER_SRC_BIT and TRANSFER_DST_BIT of buffers and of images alike
cdef uint32_t USAGE_STORAGE = 0x20          # STORAGE_BUFFER_BIT


@cython.final
@cython.no_gc_clear  # what was recorded must outlive it
cdef class Commands(DeviceObject):
    """A command pool with one command buffer, recorded anew or submitted again and again.

    Every copy waits for all that was submitted before on this queue, and is seen by all that is submitted after it
    and by the CPU.
    """

    def __cinit__(self, DeviceCore core not None):
        self.start(core)
        self.c_obj.reset(new vk.CommandPool(core.c_obj, core.queue_family_index))
        self.dispatcher.reset(new vk.Dispatcher(core.c_obj))
        self.leases, self.guards, self.kept = [], [], set()

    @property
    def handle(self) -> int:
        """The VkCommandBuffer, for commands of the application's own between ``begin`` and ``end``."""
        self.require_open()
        return self.c_obj.get().commands()

    def begin(self, *, bint once=True) -> None:
        """Forget what was recorded and record. `once`: it will be submitted a single time."""
        self.require_open()
        if self.uses:
            raise DeviceError("these commands are still at work on the device: wait for them")
        self.forget()
        self.dispatcher.get().begin()
        self.c_obj.get().begin(once)
        self.recording, self.ordered = True, False

    def end(self) -> None:
        """End the recording."""
        self.recorder().end()
        self.recording = False

    def forget(self) -> None:
        """Let what was recorded be closed. Nothing is submitted after that."""
        if self.uses:
            raise DeviceError("these commands are still at work on the device: wait for them")
        self.leases, self.guards, self.recording, self.kept = [], [], False, set()

    def copy_buffer(self, Buffer source not None, Buffer to not None, uint64_t source_offset=0, uint64_t to_offset=0,
                    nbytes=None) -> None:
        """Copy bytes from one buffer to another; all that fit by default."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef uint64_t size
        if nbytes is None:
            nbytes = max(0, min(int(source.nbytes) - int(source_offset), int(to.nbytes) - int(to_offset)))
        require_range(source, source_offset, nbytes, USAGE_SRC, "TRANSFER_SRC")
        require_range(to, to_offset, nbytes, USAGE_DST, "TRANSFER_DST")
        if source is to and source_offset < to_offset + nbytes and to_offset < source_offset + nbytes:
            raise InputError(
                f"a copy of {nbytes} bytes from {source_offset} to {to_offset} of one buffer overlaps itself"
            )
        size = nbytes
        self.keep(source)
        self.keep(to)
        before_transfer(recorder)
        recorder.copy_buffer(source.c_obj.get().number(), to.c_obj.get().number(), source_offset, to_offset, size)
        after_transfer(recorder)

    def fill_buffer(self, Buffer to not None, uint64_t offset, uint64_t nbytes, uint32_t value=0) -> None:
        """Fill bytes with a number of 32 bits; offset and size are multiples of four."""
        cdef vk.CommandPool* recorder = self.recorder()
        require_range(to, offset, nbytes, USAGE_DST, "TRANSFER_DST")
        if offset % 4 or nbytes % 4:
            raise InputError(f"fill of {nbytes} bytes at {offset}: both must be multiples of 4")
        self.keep(to)
        before_transfer(recorder)
        recorder.fill_buffer(to.c_obj.get().number(), offset, nbytes, value)
        after_transfer(recorder)

    def copy_to_image(self, Buffer source not None, uint64_t offset, uint64_t nbytes, Image to not None) -> None:
        """Fill an image with dense rows of texels. It ends in GENERAL if its contents were undefined before."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vk.ImageCopy all_of_it = whole(to, offset)
        require_range(source, offset, nbytes, USAGE_SRC, "TRANSFER_SRC")
        require_image(to, USAGE_DST, "TRANSFER_DST")
        self.keep(source)
        self.keep(to)
        before_transfer(recorder)
        enter(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)
        recorder.copy_to_image(source.c_obj.get().number(), to.c_obj.get().number(), all_of_it)
        leave(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)

    def copy_from_image(self, Image source not None, Buffer to not None, uint64_t offset, uint64_t nbytes) -> None:
        """Write all texels of an image as dense rows."""
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vk.ImageCopy all_of_it = whole(source, offset)
        require_range(to, offset, nbytes, USAGE_DST, "TRANSFER_DST")
        require_image(source, USAGE_SRC, "TRANSFER_SRC")
        require_contents(source)
        self.keep(source)
        self.keep(to)
        before_transfer(recorder)
        enter(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        recorder.copy_from_image(source.c_obj.get().number(), to.c_obj.get().number(), all_of_it)
        leave(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        after_transfer(recorder)

    def copy_image(self, Image source not None, Image to not None) -> None:
        """Copy all texels to an image of the same size and texel size."""
        cdef vk.CommandPool* recorder = self.recorder()
        if source is to or (source.width, source.height, source.depth) != (to.width, to.height, to.depth):
            raise InputError("images are copied to another image of the same size")
        require_image(source, USAGE_SRC, "TRANSFER_SRC")
        require_image(to, USAGE_DST, "TRANSFER_DST")
        require_contents(source)
        self.keep(source)
        self.keep(to)
        enter(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        enter(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)
        recorder.copy_image(
            source.c_obj.get().number(), to.c_obj.get().number(), source.width, source.height, source.depth
        )
        leave(recorder, source, LAYOUT_TRANSFER_SRC, TRANSFER_READ)
        leave(recorder, to, LAYOUT_TRANSFER_DST, TRANSFER_WRITE)

    def transition(self, Image image not None, uint32_t layout) -> None:
        """Bring an image into another VkImageLayout."""
        cdef vk.CommandPool* recorder = self.recorder()
        if layout in (LAYOUT_UNDEFINED, 8):
            raise InputError("an image cannot be brought into the layout UNDEFINED or PREINITIALIZED")
        image.require_open()
        self.keep(image)
        recorder.image_barrier(
            image.c_obj.get().number(), image.layout, layout, STAGE_ALL, MEMORY_WRITE, STAGE_ALL,
            MEMORY_READ | MEMORY_WRITE,
        )
        image.layout = layout

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

    def dispatch(self, Pipeline pipeline not None, resources, bytes push not None, groups) -> None:
        """Run a shader.

        Dispatches of one recording are ordered by `barrier` alone; the first sees all that was submitted before.

        Parameters
        ----------
        pipeline
            Of this device.
        resources
            For each binding in order a `Buffer`'s bytes as ``(buffer, offset, nbytes)``, or an `Image`.
        push
            The push constants, ``pipeline.push_bytes`` bytes.
        groups
            How many workgroups in x, y and z.
        """
        cdef vk.CommandPool* recorder = self.recorder()
        cdef vk.Groups counts
        cdef const char* data = push
        pipeline.require_open()
        if len(push) != pipeline.push_bytes:
            raise InputError(f"{len(push)} bytes of push constants were given, the pipeline has {pipeline.push_bytes}")
        counts.x, counts.y, counts.z = groups
        require_groups(self.core, counts)
        self.bind(pipeline, resources)
        if not self.ordered:
            recorder.barrier(STAGE_ALL, MEMORY_WRITE, STAGE_COMPUTE, SHADER_READ | SHADER_WRITE)
            self.ordered = True
        self.dispatcher.get().dispatch(recorder.commands(), pipeline.c_obj.get()[0], self.bound, data, counts)

    def barrier(self) -> None:
        """Let dispatches recorded before be done, and seen by those that follow."""
        self.recorder().barrier(STAGE_COMPUTE, SHADER_WRITE, STAGE_COMPUTE, SHADER_READ | SHADER_WRITE)

    def host_barrier(self) -> None:
        """Let the CPU see, once this is done, what was recorded before."""
        self.recorder().barrier(STAGE_ALL, MEMORY_WRITE, STAGE_HOST, HOST_READ)

    cdef int bind(self, Pipeline pipeline, resources) except -1:
        cdef const char* letters = pipeline.letters
        cdef Py_ssize_t count = len(pipeline.letters), index
        cdef vk.Limits limits = self.core.c_obj.get().limits()
        cdef Buffer buffer
        cdef vk.Bound one
        if len(resources) != count:
            raise InputError(f"{len(resources)} resources were given, the pipeline binds {count}")
        self.keep(pipeline)
        self.bound.clear()
        for index in range(count):
            what = resources[index]
            if letters[index] != b"b" or not isinstance(what, tuple) or len(<tuple>what) != 3:
                raise InputError(f"binding {index} is a {type(what).__name__}: (buffer, offset, nbytes) expected")
            buffer, one.offset, one.nbytes = <tuple>what
            require_bindable(buffer, one.offset, one.nbytes, limits)
            self.keep(buffer)
            one.handle, one.layout = buffer.c_obj.get().number(), 0
            self.bound.push_back(one)
        return 0

    cdef vk.CommandPool* recorder(self) except NULL:
        self.require_open()
        if not self.recording:
            raise DeviceError("these commands are not being recorded: call begin first")
        return self.c_obj.get()

    cdef int keep(self, DeviceObject what) except -1:
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
        self.kept.add(what)
        return 0

    cdef void drop(self) noexcept:
        with nogil:
            self.c_obj.reset()
            self.dispatcher.reset()
        self.leases, self.guards, self.kept = [], [], set()

    def __dealloc__(self):
        self.dispatcher.reset()
        self.c_obj.reset()  # before what the leases keep


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
    commands.require_open()
    fence.require_open()
    if commands.recording:
        raise DeviceError("these commands are still being recorded: call end first")
    for guard in commands.guards:
        guard.check()
    require_binary_order(wait, signal)
    number, done = commands.c_obj.get().commands(), fence.c_obj.get().number()
    with nogil:
        core.queue.get().submit(number, before, after, done)
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


cdef int require_groups(DeviceCore core, vk.Groups groups) except -1:
    cdef vk.Limits limits = core.c_obj.get().limits()
    if not (
        0 < groups.x <= limits.maxComputeWorkGroupCount[0] and 0 < groups.y <= limits.maxComputeWorkGroupCount[1]
        and 0 < groups.z <= limits.maxComputeWorkGroupCount[2]
    ):
        raise InputError(
            f"{groups.x} x {groups.y} x {groups.z} workgroups: each from 1 to {limits.maxComputeWorkGroupCount}"
        )
    return 0


cdef int require_bindable(Buffer buffer, uint64_t offset, uint64_t nbytes, vk.Limits limits) except -1:
    if buffer is None:
        raise InputError("no buffer was given")
    require_range(buffer, offset, nbytes, USAGE_STORAGE, "STORAGE_BUFFER")
    if offset % limits.minStorageBufferOffsetAlignment:
        raise DeviceError(
            f"a shader's buffer begins at a multiple of {limits.minStorageBufferOffsetAlignment} bytes, not at {offset}"
        )
    if nbytes > limits.maxStorageBufferRange:
        raise DeviceError(f"{nbytes} bytes: a shader of this device sees {limits.maxStorageBufferRange} of a buffer")
    return 0


cdef int require_range(Buffer buffer, uint64_t offset, nbytes, uint32_t usage, str name) except -1:
    buffer.require_open()
    if not buffer.usage & usage:
        raise DeviceError(f"the buffer was made without the usage {name}, which this needs: add it")
    if not 0 < nbytes <= buffer.nbytes or offset > buffer.nbytes - nbytes:
        raise DeviceError(f"bytes {offset} to {offset + nbytes} are not inside a buffer of {buffer.nbytes} bytes")
    return 0


cdef int require_image(Image image, uint32_t usage, str name) except -1:
    image.require_open()
    if not image.usage & usage:
        raise DeviceError(f"the image was made without the usage {name}, which this needs: add it")
    return 0


cdef int require_contents(Image image) except -1:
    if image.layout == LAYOUT_UNDEFINED:
        raise DeviceError("the image is in the layout UNDEFINED: nothing was written to it; say its layout if it was")
    return 0


cdef vk.ImageCopy whole(Image image, uint64_t offset) noexcept:
    cdef vk.ImageCopy out
    out.buffer_offset = offset
    out.width, out.height, out.depth = image.width, image.height, image.depth
    return out


cdef void before_transfer(vk.CommandPool* recorder) noexcept:
    recorder.barrier(STAGE_ALL, MEMORY_WRITE, STAGE_TRANSFER, TRANSFER_READ | TRANSFER_WRITE)


cdef void after_transfer(vk.CommandPool* recorder) noexcept:
    recorder.barrier(
        STAGE_TRANSFER, TRANSFER_WRITE, STAGE_ALL | STAGE_HOST, MEMORY_READ | MEMORY_WRITE | HOST_READ
    )


cdef void enter(vk.CommandPool* recorder, Image image, uint32_t layout, uint32_t access) noexcept:
    recorder.image_barrier(
        image.c_obj.get().number(), image.layout, layout, STAGE_ALL, MEMORY_WRITE, STAGE_TRANSFER, access
    )


cdef void leave(vk.CommandPool* recorder, Image image, uint32_t layout, uint32_t access) noexcept:
    """Back to the layout it had: who knows the image by another name must not be surprised."""
    if image.layout in (LAYOUT_UNDEFINED, 8):
        image.layout = LAYOUT_GENERAL
    recorder.image_barrier(
        image.c_obj.get().number(), layout, image.layout, STAGE_TRANSFER, access & TRANSFER_WRITE, STAGE_ALL,
        MEMORY_READ | MEMORY_WRITE,
    )
