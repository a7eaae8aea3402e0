"""Runners of single operators on Vulkan, with the validation layer listening."""

import gc
from collections.abc import Iterator

import pytest

from etarena import vulkan
from tests.helpers.vulkan_calls import CallRunner


@pytest.fixture(scope="module")
def device() -> Iterator[vulkan.Device]:
    """A device for a module's tests, so that pipelines are compiled once."""
    device = vulkan.Device.create(validation=True)
    yield device
    gc.collect()
    device.close()
    assert device.messages == []


@pytest.fixture
def runner(device: vulkan.Device) -> Iterator[CallRunner]:
    """Runs calls as the device is."""
    runner = CallRunner(device)
    yield runner
    runner.close()
    assert device.messages == []


@pytest.fixture
def plain_runner(device: vulkan.Device) -> Iterator[CallRunner]:
    """Runs calls as on a device whose subgroups cannot shuffle, with workgroups as on one with larger subgroups."""
    runner = CallRunner(device, {"subgroupSize": 32, "subgroupSupportedOperations": 0})
    yield runner
    runner.close()
    assert device.messages == []
