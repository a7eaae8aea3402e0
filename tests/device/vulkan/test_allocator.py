"""Vulkan's device allocator: the conformance suite, and tensors through the registry."""

from collections.abc import Iterator

import numpy as np
import pytest

import etarena
from etarena import vulkan
from etarena.device.device_heap import DeviceHeap
from etarena.testing import DeviceAllocatorSuite


class TestHostVisible(DeviceAllocatorSuite):
    """Memory that the CPU maps."""

    @pytest.fixture
    def allocator(self, device: vulkan.Device) -> vulkan.VulkanAllocator:
        return vulkan.VulkanAllocator(device, host_visible=True)


class TestStaged(DeviceAllocatorSuite):
    """Memory that only the device sees, in blocks, filled through staging memory."""

    supports_fork = False

    @pytest.fixture
    def allocator(self, device: vulkan.Device, monkeypatch: pytest.MonkeyPatch) -> vulkan.VulkanAllocator:
        # Mesa's CPU device has one memory type, which can be mapped: let nothing see that.
        from etarena.device.vulkan.transfers import Transfers

        real = Transfers._move_mapped
        monkeypatch.setattr(Transfers, "_move_mapped", lambda *_: False)
        assert real is not Transfers._move_mapped
        return vulkan.VulkanAllocator(device, host_visible=False)

    def test_map(self, device: etarena.DeviceAllocator) -> None:
        assert not device.capabilities(0).host_visible


@pytest.fixture
def registered(device: vulkan.Device) -> Iterator[vulkan.VulkanAllocator]:
    allocator = vulkan.VulkanAllocator(device)
    etarena.register_device_allocator(allocator)
    yield allocator
    etarena.unregister_device_allocator(allocator)


def test_tensors_move_to_vulkan_and_back(registered: vulkan.VulkanAllocator) -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    on_device = etarena.ETensor(values).to("vulkan")
    assert str(on_device.device) == "vulkan:0"
    assert on_device.resource.kind == etarena.ResourceKind.VK_BUFFER
    assert (on_device.to("cpu").numpy() == values).all()
    with on_device.map() as mapped:
        mapped.numpy()[0, 0, 0] = 100
    assert on_device.cpu().numpy()[0, 0, 0] == 100


def test_tensors_of_the_registry_meet_the_device(device: vulkan.Device, registered: vulkan.VulkanAllocator) -> None:
    tensor = etarena.ETensor.empty("float32", (8,), "vulkan")
    device.copy(tensor, np.arange(8, dtype=np.float32))
    buffer = device.buffer(32)
    device.copy(buffer, tensor)
    seen = device.tensor(buffer, "float32", (8,))
    assert (seen.to("cpu").numpy() == np.arange(8)).all()


def test_capabilities_are_the_devices(device: vulkan.Device) -> None:
    found = vulkan.VulkanAllocator(device).capabilities(0)
    assert found.import_alignment == device.info.limits["minImportedHostPointerAlignment"]
    assert found.exports_fd == ("VK_KHR_external_memory_fd" in device.enabled_extensions)
    assert found.total_bytes == sum(heap.nbytes for heap in device.info.memory_heaps if heap.device_local)
    assert found.queue_families == len(device.info.queue_families)
    assert found.host_visible == device.info.unified


def test_two_devices(device: vulkan.Device) -> None:
    with vulkan.Device.create(validation=True, tag_index=1) as other:
        allocator = vulkan.VulkanAllocator(device, other)
        etarena.register_device_allocator(allocator)
        try:
            first = etarena.ETensor(np.arange(4, dtype=np.int64)).to("vulkan:0")
            second = first.to("vulkan:1")
            assert second.resource.details["device"] == other.core.handle
            assert (second.cpu().numpy() == np.arange(4)).all()
            del second, first
        finally:
            etarena.unregister_device_allocator(allocator)
        assert other.messages == []


def test_the_limit_reaches_tensors(device: vulkan.Device, registered: vulkan.VulkanAllocator) -> None:
    device.core.memory_limit = device.core.memory_live + 4096
    with pytest.raises(MemoryError, match="limit"):
        etarena.ETensor.empty("float32", (1 << 20,), "vulkan")
    device.core.memory_limit = 0
    assert etarena.ETensor.empty("float32", (1 << 20,), "vulkan").nbytes == 4 << 20


def test_no_devices_are_refused() -> None:
    with pytest.raises(etarena.DeviceError, match="at least one"):
        vulkan.VulkanAllocator()


def test_a_lost_device_is_an_error_of_tensors(device: vulkan.Device, registered: vulkan.VulkanAllocator) -> None:
    heap = DeviceHeap(registered, etarena.Device("vulkan"))
    resource = heap.allocate(64)
    device.core.inject("vkCreateBuffer", -4)
    with pytest.raises(etarena.DeviceError, match="VK_ERROR_DEVICE_LOST"):
        heap.allocate(64)
    assert device.core.is_lost
    del resource
    heap.retire()
