"""The device allocator of Vulkan: buffers of one or more devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError
from ..allocator import DeviceAllocator
from ..capabilities import Capabilities
from ..device import DeviceType
from ..kinds import ResourceKind
from ..resource import Resource
from .requirements import HOST_IMPORT, MEMORY_FD
from .transfers import Span

if TYPE_CHECKING:
    from .device import Device
    from .memory import Buffer

__all__ = ["VulkanAllocator"]


class VulkanAllocator(DeviceAllocator):
    """Buffers of Vulkan devices, for `etarena.register_device_allocator`.

    Parameters
    ----------
    *devices
        Device i of the registry's ``vulkan:i``.
    host_visible
        Take memory that the CPU sees; by default if all of each device's own memory is (integrated GPUs, CPUs).
        Otherwise copies go through staging memory.
    """

    device_type = DeviceType.VULKAN

    def __init__(self, *devices: Device, host_visible: bool | None = None) -> None:
        if not devices:
            raise DeviceError("VulkanAllocator needs at least one etarena.vulkan.Device")
        self.devices = devices
        self.device_count = len(devices)
        unified = all(device.info.unified for device in devices)
        self.host_visible = unified if host_visible is None else host_visible
        self._buffers: dict[tuple[int, int], Buffer] = {}  # each change is one step: no lock
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"VulkanAllocator({', '.join(device.info.name for device in self.devices)})"

    def capabilities(self, index: int) -> Capabilities:
        """From the device's limits."""
        device = self._device(index)
        info, limits = device.info, device.info.limits
        local = [heap.nbytes for heap in info.memory_heaps if heap.device_local]
        imports = HOST_IMPORT in device.enabled_extensions
        return Capabilities(
            alignment=max(64, limits["minStorageBufferOffsetAlignment"]),
            max_allocation=device.largest_allocation,
            total_bytes=sum(local),
            row_pitch=0,
            import_alignment=limits["minImportedHostPointerAlignment"] if imports else 0,
            import_kinds=frozenset({ResourceKind.VK_BUFFER}),
            queue_families=len(info.queue_families),
            host_visible=self.host_visible,
            host_coherent=self.host_visible and all(t.host_coherent for t in info.memory_types if t.host_visible),
            unified=info.unified,
            exports_fd=MEMORY_FD in device.enabled_extensions,
        )

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """A buffer of its own, so offset 0 is aligned to anything."""
        device = self._device(index)
        if nbytes < 0 or alignment <= 0 or alignment & (alignment - 1):
            raise DeviceError(f"{nbytes} bytes at a multiple of {alignment}: alignments are powers of two")
        buffer = device.buffer(max(4, nbytes), host_visible=self.host_visible)
        self._buffers[index, buffer.handle] = buffer
        return Resource.vk_buffer(
            buffer.handle, nbytes, usage=buffer.usage, memory=buffer.memory.handle, device=device.core.handle
        )

    def deallocate(self, index: int, resource: Resource) -> None:
        """Wait until the device does not use the buffer, and destroy it."""
        device = self._device(index)
        buffer = self._known(index, resource)
        if buffer is None:
            raise DeviceError(f"{resource!r} was freed before, or is none of {self!r}")
        if os.getpid() != self._process:
            return  # the parent's to give back
        if buffer.uses:
            device.wait_idle()
        buffer.close()
        del self._buffers[index, resource.handle]

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """Through mapped memory if it can be seen and is not in use, otherwise through staging memory."""
        device, span = self._device(index), self._span(index, destination, offset, source.nbytes)
        if source.nbytes:
            device.transfers.write(span, source.cast("B"))

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """Through mapped memory if it can be seen and is not in use, otherwise through staging memory."""
        device, span = self._device(index), self._span(index, source, offset, destination.nbytes)
        if destination.nbytes:
            device.transfers.read(destination.cast("B"), span)

    def map(self, index: int, resource: Resource) -> int | None:
        """The mapped address; None if the memory cannot be seen."""
        buffer = self._known(index, resource)
        if buffer is None or not buffer.memory.host_visible:
            return None
        if buffer.uses:
            self._device(index).wait_idle()
        address = buffer.memory.map()
        buffer.memory.invalidate()
        return address + buffer.memory_offset + resource.offset

    def unmap(self, index: int, resource: Resource) -> None:
        """Let the device see what the CPU wrote."""
        buffer = self._known(index, resource)
        if buffer is not None:
            buffer.memory.flush()

    def synchronize(self, index: int) -> None:
        """Wait for all that was submitted through etarena."""
        self._device(index).wait_idle()

    def _device(self, index: int) -> Device:
        if not 0 <= index < len(self.devices):
            raise DeviceError(f"there is no device {index}: {self!r} has {len(self.devices)}")
        return self.devices[index]

    def _known(self, index: int, resource: Resource) -> Buffer | None:
        if resource.kind != ResourceKind.VK_BUFFER:
            return None
        return self._buffers.get((index, resource.handle))

    def _span(self, index: int, resource: Resource, offset: int, nbytes: int) -> Span:
        """Bytes of a buffer of ours, or of one of the application's on the same device."""
        part = resource.part(offset, nbytes)
        buffer = self._known(index, resource)
        if buffer is not None:
            return Span(buffer, part.offset, nbytes)
        place = self._device(index).transfers.place_of_resource(part)
        if not isinstance(place, Span):
            raise DeviceError(f"{resource!r} is no buffer")
        return place
