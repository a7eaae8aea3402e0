"""A Vulkan device with the validation layer, on which the operators of a module run one after the other."""

from collections.abc import Iterator

import pytest

from etarena import vulkan
from tests.helpers.vulkan_operators import OperatorRunner


@pytest.fixture(scope="module")
def runner() -> Iterator[OperatorRunner]:
    """Runs single operators; the validation layer may say nothing."""
    device = vulkan.Device.create(validation=True)
    runner = OperatorRunner(device)
    yield runner
    runner.close()
    device.close()
    assert device.messages == []
