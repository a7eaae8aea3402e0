# distutils: language = c++
"""Instances, devices, and what all objects of a device share."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena.device.vulkan cimport vk

from ...allocator.errors import DeviceError

__all__ = ["DeviceCore", "DeviceObject", "InstanceCore", "Lease", "feature_names"]


def feature_names() -> list:
    """Names of the features that etarena knows, as Vulkan's structs call them."""
    return [name.decode() for name in vk.feature_names()]


@cython.final
cdef class InstanceCore:
    """A VkInstance.

    Parameters
    ----------
    loader : str
        Path or name of libvulkan.
    validation : bool
        Check every call with the Khronos layer: core and synchronisation validation.
    handle : int
        The application's VkInstance, used and not destroyed; 0: make one.
    api_version : int
        That the application's was made for, as Vulkan packs it.
    """

    def __cinit__(self, str loader not None, bint validation=False, uint64_t handle=0, uint32_t api_version=0):
        cdef string path = loader.encode()
        cdef vk.GlobalFunctions functions
        with nogil:
            functions = vk.open_loader(path)
            if handle != 0:
                self.c_obj.reset(new vk.Instance(functions, handle, api_version))
            else:
                self.c_obj.reset(new vk.Instance(functions, validation))

    @property
    def handle(self) -> int:
        """The VkInstance."""
        return self.c_obj.get().number()

    @property
    def api_version(self) -> int:
        """Vulkan's version that it was made for, packed."""
        return self.c_obj.get().api_version()

    def physical_devices(self) -> list:
        """The VkPhysicalDevices, in the loader's order."""
        return self.c_obj.get().physical_device_numbers()

    def describe(self, uint64_t physical) -> dict:
        """What one of `physical_devices` says about itself."""
        cdef vk.Description found
        if physical not in self.physical_devices():
            raise DeviceError(f"VkPhysicalDevice 0x{physical:x} is none of VkInstance 0x{self.handle:x}")
        with nogil:
            found = vk.describe(self.c_obj.get()[0], physical)
        return {
            "name": found.name.decode(errors="replace"),
            "driver_name": found.driver_name.decode(errors="replace"),
            "driver_info": found.driver_info.decode(errors="replace"),
            "device_uuid": found.device_uuid,
            "driver_uuid": found.driver_uuid,
            "cache_uuid": found.cache_uuid,
            "kind": found.kind,
            "api_version": found.api_version,
            "driver_version": found.driver_version,
            "vendor": found.vendor,
            "device": found.device,
            "timestamp_period": found.timestamp_period,
            "limits": {name.decode(): value for name, value in found.limits},
            "memory_types": found.memory_types,
            "memory_heaps": found.memory_heaps,
            "queue_families": found.queue_families,
            "extensions": [name.decode() for name in found.extensions],
            "features": [name.decode() for name in found.features],
        }

    def messages(self) -> list:
        """What the validation layer said: (severity, id, text)."""
        cdef vector[vk.Message] found = self.c_obj.get().messages().copy()
        cdef size_t i
        return [
            (found[i].severity, found[i].id.decode(errors="replace"), found[i].text.decode(errors="replace"))
            for i in range(found.size())
        ]

    def clear_messages(self) -> None:
        """Forget them."""
        self.c_obj.get().messages().clear()

    def abandon(self) -> None:
        """Never destroy it: it is another process's."""
        self.c_obj.get().leak()


cdef class DeviceCore:
    """A VkDevice with one queue.

    Parameters
    ----------
    instance : InstanceCore
        Of which the physical device is one.
    physical_device : int
        The VkPhysicalDevice.
    family : int
        Queue family.
    extensions, features : list of str
        Enabled when the device is made.
    device, queue : int
        The application's, used and not destroyed; 0: make a device, and take its queue `queue_index`.
    """

    def __cinit__(
        self, InstanceCore instance not None, uint64_t physical_device, uint32_t family, extensions, features,
        uint64_t device=0, uint64_t queue=0, uint32_t queue_index=0,
    ):
        cdef vector[string] extension_names = [name.encode() for name in extensions]
        cdef vector[string] wanted_features = [name.encode() for name in features]
        self.instance = instance
        self.physical_device = physical_device
        self.queue_family_index = family
        with nogil:
            if device != 0:
                self.c_obj.reset(new vk.Context(instance.c_obj, physical_device, device))
            else:
                self.c_obj.reset(
                    new vk.Context(instance.c_obj, physical_device, family, extension_names, wanted_features)
                )
            self.queue.reset(new vk.Queue(self.c_obj, queue, family, queue_index))

    @property
    def handle(self) -> int:
        """The VkDevice."""
        self.require_open()
        return self.c_obj.get().number()

    @property
    def queue_handle(self) -> int:
        """The VkQueue."""
        self.require_open()
        return self.queue.get().number()

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self.c_obj.get() != NULL

    @property
    def is_lost(self) -> bool:
        """Whether a call said VK_ERROR_DEVICE_LOST."""
        self.require_open()
        return self.c_obj.get().lost()

    @property
    def memory_live(self) -> int:
        """Bytes of device memory that were allocated and not freed."""
        self.require_open()
        return self.c_obj.get().memory_live()

    @property
    def memory_limit(self) -> int:
        """Bytes of device memory that may be allocated at a time; 0: as many as there are."""
        self.require_open()
        return self.c_obj.get().memory_limit()

    @memory_limit.setter
    def memory_limit(self, uint64_t limit):
        self.require_open()
        self.c_obj.get().set_memory_limit(limit)

    def live_objects(self) -> dict:
        """How many objects of each kind were made here and not destroyed."""
        self.require_open()
        return {name.decode(): count for name, count in self.c_obj.get().live()}

    def inject(self, str call not None, int code, uint64_t after=0) -> None:
        """Let a call fail once with a VkResult, after so many that succeed; code 0 takes it back. For tests."""
        self.require_open()
        self.c_obj.get().inject(call.encode(), code, after)

    def close(self) -> None:
        """Destroy the VkDevice if it was made here. Nothing made on it may be left."""
        if not self.is_open:
            return
        left = self.live_objects()
        if left:
            text = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in left.items())
            raise DeviceError(f"the Vulkan device cannot be closed, it still has {text}: close or drop them first")
        with nogil:
            self.queue.reset()
            self.c_obj.reset()

    def abandon(self) -> None:
        """Destroy nothing from now on, and refuse work: the device never ends what it does, or is another process's."""
        if self.is_open:
            self.c_obj.get().leak()

    cdef int require_open(self) except -1:
        if self.c_obj.get() == NULL:
            raise DeviceError("this Vulkan device is closed")
        if self.c_obj.get().leaked():
            raise DeviceError("this Vulkan device belongs to the process that forked this one: make another here")
        return 0


cdef class DeviceObject:
    """What all objects of a device share: they can be closed once nobody uses them."""

    cdef int start(self, DeviceCore core) except -1:
        if core is None:
            raise DeviceError("no Vulkan device was given")
        core.require_open()
        self.core = core
        self.uses = {}
        self.is_open = True
        return 0

    cdef void drop(self) noexcept:
        pass

    cdef int require_open(self) except -1:
        if not self.is_open:
            raise DeviceError(f"this Vulkan {type(self).__name__} is closed")
        return self.core.require_open()

    @property
    def is_closed(self) -> bool:
        """Whether it was destroyed."""
        return not self.is_open

    def close(self) -> None:
        """Destroy it. Closing twice is allowed.

        Raises
        ------
        DeviceError
            It is in use; says by whom.
        """
        if not self.is_open:
            return
        if self.uses and self.yielding is not None:
            for recording in list(self.yielding):
                recording.give_way()
        if self.uses:
            text = " and ".join(f"{count} x {who}" for who, count in self.uses.items())
            raise DeviceError(f"this Vulkan {type(self).__name__} cannot be closed, it is in use: {text}")
        self.is_open = False
        self.drop()

    def lease(self, str who not None) -> Lease:
        """Keep it open as long as what is returned lives; `who` names the user, for messages."""
        cdef Lease lease = Lease.__new__(Lease)
        self.require_open()
        lease.leased = self
        lease.who = who
        self.uses[who] = self.uses.get(who, 0) + 1
        return lease

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace, /):
        self.close()


@cython.final
@cython.no_gc_clear  # what it leases must be there when it ends
cdef class Lease:
    """Somebody's need that an object stays open; ends when it is dropped, or by `end`."""

    def __init__(self):
        raise TypeError("leases are made by DeviceObject.lease")

    def end(self) -> None:
        """Say that it is needed no longer."""
        cdef DeviceObject leased = self.leased
        if leased is None:
            return
        self.leased = None
        left = leased.uses[self.who] - 1
        if left:
            leased.uses[self.who] = left
        else:
            del leased.uses[self.who]

    def __del__(self):
        self.end()
