"""Vulkan devices: made here, or the application's."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from ...allocator.errors import DeviceError
from ..device import Device as DeviceTag
from ..handles import handle_number
from .core import DeviceCore, InstanceCore, feature_names
from .device_memory import DeviceMemory
from .device_work import DeviceWork
from .errors import MissingFeatureError
from .info import DeviceInfo, Message, packed_version
from .pipeline_store import PipelineStore
from .requirements import (
    EXTENSIONS,
    FEATURES,
    TIMELINE,
    TIMELINE_EXTENSION,
    Enabled,
)
from .submission import WorkQueue
from .sync import Semaphore
from .tensors import DeviceTensors
from .transfers import Transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

__all__ = ["Device", "physical_devices"]

_cores: weakref.WeakSet[DeviceCore] = weakref.WeakSet()
_instances: weakref.WeakSet[InstanceCore] = weakref.WeakSet()

LOADER = "libvulkan.so.1"
OLDEST = packed_version((1, 1))


def leave_to_the_parent() -> None:
    """In a forked child drivers have lost their threads: what was inherited is neither used nor destroyed."""
    for core in _cores:
        core.abandon()
    for instance in _instances:
        instance.abandon()


os.register_at_fork(after_in_child=leave_to_the_parent)


def loader_path() -> str:
    return os.environ.get("ETARENA_LIBVULKAN") or LOADER


def physical_devices() -> list[DeviceInfo]:
    """What `Device.create` can choose from, in the loader's order.

    Raises
    ------
    MissingFeatureError
        There is no Vulkan loader.
    """
    instance = InstanceCore(loader_path())
    return [DeviceInfo.from_core(handle, instance.describe(handle)) for handle in instance.physical_devices()]


class Device(DeviceMemory, DeviceWork, DeviceTensors):
    """A VkDevice with the queue that all work goes to. Made by `create` or `from_handles`.

    Attributes
    ----------
    info : DeviceInfo
        The physical device as plain data.
    tag : etarena.Device
        Device of tensors on it, ``vulkan:0`` unless another index was given.
    enabled_extensions, enabled_features : frozenset of str
        What the VkDevice was made with, as far as etarena knows.
    largest_allocation : int
        Bytes of the largest buffer that can be made.
    """

    def __init__(
        self,
        core: DeviceCore,
        info: DeviceInfo,
        enabled: Enabled,
        tag_index: int = 0,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.core, self.info = core, info
        _cores.add(core)
        _instances.add(core.instance)
        self.tag = DeviceTag("vulkan", tag_index)
        self.enabled_extensions, self.enabled_features = enabled.extensions, enabled.features
        self.largest_allocation = min(
            info.limits["maxMemoryAllocationSize"] or 1 << 62, max(heap.nbytes for heap in info.memory_heaps)
        )
        self._enabled = enabled
        self._before_closing: list[Callable[[], None]] = []
        self.work = WorkQueue(core, lock)
        self.transfers = Transfers(self)
        self.pipelines = PipelineStore(core, info)
        self._saved = weakref.finalize(self, PipelineStore.save, self.pipelines)
        self._dropped = weakref.finalize(self, WorkQueue.abandon, self.work)

    @classmethod
    def create(cls, index: int = 0, *, validation: bool = False, tag_index: int | None = None) -> Device:
        """Make a device of its own.

        Parameters
        ----------
        index
            Which of `physical_devices`.
        validation
            Check every call with VK_LAYER_KHRONOS_validation, core and synchronisation; see `messages`.
        tag_index
            Index of the device in tensors; `index` by default.

        Raises
        ------
        MissingFeatureError
            No loader, no driver, no layer, or a device older than Vulkan 1.2.
        DeviceError
            There are not as many devices.
        """
        instance = InstanceCore(loader_path(), validation)
        handles = instance.physical_devices()
        if not handles:
            raise MissingFeatureError("there is no Vulkan device: install a driver such as 'mesa-vulkan-drivers'")
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(handles):
            raise DeviceError(f"there is no Vulkan device {index!r}: {len(handles)} found, counted from 0")
        found = instance.describe(handles[index])
        info = DeviceInfo.from_core(handles[index], found)
        if found["api_version"] < packed_version((1, 2)):
            raise MissingFeatureError(f"{info.name} has Vulkan {info.api_version}; version 1.2 or newer is needed")
        family = next((family.index for family in info.queue_families if family.compute), None)
        if family is None:
            raise MissingFeatureError(f"{info.name} has no queue that computes")
        enabled = Enabled(EXTENSIONS & info.extensions, FEATURES & info.features, adopted=False)
        core = DeviceCore(instance, info.handle, family, sorted(enabled.extensions), sorted(enabled.features))
        return cls(core, info, enabled, index if tag_index is None else tag_index)

    @classmethod
    def from_handles(
        cls,
        *,
        instance: Any,
        physical_device: Any,
        device: Any,
        queue: Any = 0,
        queue_family_index: int,
        queue_index: int = 0,
        api_version: tuple[int, ...] | int = (1, 1),
        extensions: Iterable[str] = (),
        features: Iterable[str] = (),
        queue_lock: AbstractContextManager[Any] | None = None,
        tag_index: int = 0,
    ) -> Device:
        """Use the application's device. The handles must be valid and outlive what is returned; none is destroyed.

        Parameters
        ----------
        instance, physical_device, device, queue
            Handles: integers, ctypes, cffi (such as the ``vulkan`` package's), or anything with ``__int__``. Without
            `queue`, queue `queue_index` of the family is taken.
        queue_family_index
            Family of the queue.
        api_version
            That the instance was made for, such as ``(1, 2)``; at least 1.1.
        extensions, features
            What the device was made with, by Vulkan's names. Vulkan has no way to ask. What needs more says so when it
            is used.
        queue_lock
            Held while etarena submits; for applications that submit to the same queue from other threads.
        tag_index
            Index of the device in tensors.

        Raises
        ------
        DeviceError
            A handle is null, or does not belong to the instance.
        MissingFeatureError
            Version 1.0, or an extension that is said to be enabled and is not there.
        """
        version = packed_version(api_version)
        handles = {
            name: handle_number(value, name)
            for name, value in (("instance", instance), ("physical_device", physical_device), ("device", device))
        }
        for name, number in handles.items():
            if number == 0:
                raise DeviceError(f"{name} is a null handle")
        if version < OLDEST:
            raise MissingFeatureError("api_version 1.0 is too old: make the VkInstance with apiVersion 1.1 or newer")
        core_instance = InstanceCore(loader_path(), handle=handles["instance"], api_version=version)
        physical = handles["physical_device"]
        info = DeviceInfo.from_core(physical, core_instance.describe(physical))
        families = len(info.queue_families)
        if not 0 <= queue_family_index < families:
            raise DeviceError(f"queue_family_index {queue_family_index}: {info.name} has {families} families")
        enabled = Enabled(extensions, features, adopted=True)
        require_known(enabled, info, version)
        core = DeviceCore(
            core_instance,
            physical,
            queue_family_index,
            (),
            (),
            device=handles["device"],
            queue=handle_number(queue, "queue"),
            queue_index=queue_index,
        )
        return cls(core, info, enabled, tag_index, queue_lock)

    def __repr__(self) -> str:
        state = "" if self.core.is_open else " closed"
        return f"<etarena.vulkan.Device {self.tag} {self.info.name!r}{state}>"

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def messages(self) -> list[Message]:
        """What the validation layer said so far: warnings and errors. Empty without validation."""
        return [Message.from_core(*found) for found in self.core.instance.messages()]

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return not self.core.is_open

    @property
    def live_objects(self) -> dict[str, int]:
        """How many Vulkan objects of each kind are there; those for later use by etarena among them."""
        return self.core.live_objects()

    def before_closing(self, release: Callable[[], None]) -> None:
        """Call something whenever the device is about to be closed and does no work: it lets go of what it keeps."""
        self._before_closing.append(release)

    def close(self, timeout: float = 10.0) -> None:
        """Wait for the device and destroy it, unless it is the application's. Closing twice is allowed.

        Raises
        ------
        WaitTimeoutError
            It is not done within `timeout` seconds.
        DeviceError
            Buffers, images or the like are still there; says which. The device can still be used.
        """
        if self.is_closed:
            return
        self.work.close(timeout)
        for release in self._before_closing:
            release()
        self.transfers.close()
        self.pipelines.close()
        self.core.close()
        self._saved.detach()
        self._dropped.detach()

    def semaphore(self) -> Semaphore:
        """Make a binary semaphore."""
        return Semaphore(self.core)

    def timeline(self, value: int = 0) -> Semaphore:
        """Make a timeline semaphore; needs the feature timelineSemaphore."""
        self._require_timeline()
        return Semaphore(self.core, timeline=True, value=value)

    def adopt_semaphore(self, handle: Any, *, timeline: bool) -> Semaphore:
        """Use the application's semaphore, which outlives what is returned."""
        number = handle_number(handle, "semaphore")
        if number == 0:
            raise DeviceError("the semaphore is a null handle")
        if timeline:
            self._require_timeline()
        return Semaphore(self.core, timeline=timeline, handle=number)

    def _require_timeline(self) -> None:
        if TIMELINE_EXTENSION not in self.enabled_extensions or TIMELINE not in self.enabled_features:
            self._enabled.require_feature(TIMELINE, "a timeline semaphore")


def require_known(enabled: Enabled, info: DeviceInfo, version: int) -> None:
    """Refuse names that the device cannot have enabled. Before version 1.2 not all features can be asked for."""
    for name in enabled.extensions - info.extensions:
        raise MissingFeatureError(f"{name!r} cannot be enabled: {info.name} does not have this extension")
    known = frozenset(feature_names()) if version >= packed_version((1, 2)) else frozenset()
    for name in enabled.features & known - info.features:
        raise MissingFeatureError(f"{name!r} cannot be enabled: {info.name} does not have this feature")
