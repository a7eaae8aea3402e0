"""Vulkan devices with the validation layer's core and synchronisation checks; no test may make it say anything."""

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from etarena import vulkan
from scripts.compile_shaders import compile_shaders


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


@pytest.fixture(scope="session")
def shaders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The modules of the folder ``shaders`` by their names."""
    folder = tmp_path_factory.mktemp("vulkan") / "shaders"
    shutil.copytree(Path(__file__).parent / "shaders", folder)
    compile_shaders(folder)
    return {path.stem: path.read_bytes() for path in (folder / "spirv").iterdir()}
