"""Vulkan devices with the validation layer's core and synchronisation checks; no test may make it say anything."""

import gc
from collections.abc import Iterator

import pytest

from etarena import vulkan


@pytest.fixture
def device() -> Iterator[vulkan.Device]:
    """A device for one test, closed after it with all that the test dropped."""
    device = vulkan.Device.create(validation=True)
    yield device
    assert device.messages == []
    gc.collect()  # exceptions hold frames, and those what they used
    if not device.is_closed:
        device.close()
    assert device.messages == []
