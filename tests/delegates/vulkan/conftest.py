"""A Vulkan device with the validation layer for each module; no test may make it say anything."""

import gc
from collections.abc import Iterator

import pytest

import etarena
from etarena import vulkan
from tests.helpers.vulkan_operators import OperatorRunner


@pytest.fixture(scope="module")
def device() -> Iterator[vulkan.Device]:
    """Registered for tensors on ``vulkan:0``."""
    found = vulkan.Device.create(validation=True)
    assert found.info.name
    etarena.register_device_allocator(vulkan.VulkanAllocator(found))
    yield found
    etarena.unregister_device_allocator("vulkan")
    gc.collect()
    assert found.messages == []


@pytest.fixture(autouse=True)
def nothing_said(device: vulkan.Device) -> Iterator[None]:
    """The validation layer is silent in each test."""
    yield
    assert device.messages == []


@pytest.fixture(scope="module")
def runner(device: vulkan.Device) -> Iterator[OperatorRunner]:
    """Runs single operators as the device is."""
    found = OperatorRunner(device)
    yield found
    found.close()


@pytest.fixture(scope="module")
def plain_runner(device: vulkan.Device) -> Iterator[OperatorRunner]:
    """Runs them as on a device whose subgroups cannot shuffle, with workgroups as on one with larger subgroups."""
    found = OperatorRunner(device, {"subgroupSize": 32, "subgroupSupportedOperations": 0})
    yield found
    found.close()
