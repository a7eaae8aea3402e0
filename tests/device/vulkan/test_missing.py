"""What is not installed: loader, drivers, layers, headers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import etarena
from etarena import vulkan

ROOT = Path(__file__).parent.parent.parent.parent


def outcome(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"import etarena\nfrom etarena import vulkan\n{code}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


TRY = """
try:
    vulkan.Device.create({})
except vulkan.MissingFeatureError as error:
    print(error)
assert issubclass(vulkan.MissingFeatureError, (etarena.DeviceError, NotImplementedError))
block = etarena.Arena(1 << 20).alloc(64)
print("works" if block.address else "")
"""


def test_without_a_loader_everything_else_works() -> None:
    said = outcome(TRY.format(""), ETARENA_LIBVULKAN="/nowhere/libvulkan.so.1")
    assert "/nowhere/libvulkan.so.1" in said
    assert "apt-get install libvulkan1" in said
    assert said.endswith("works\n")


def test_a_library_that_is_no_loader(tmp_path: Path) -> None:
    assert "has no vkGetInstanceProcAddr" in outcome(TRY.format(""), ETARENA_LIBVULKAN="libm.so.6")
    broken = tmp_path / "libvulkan.so.1"
    broken.write_bytes(b"not a library")
    assert "cannot be opened" in outcome(TRY.format(""), ETARENA_LIBVULKAN=str(broken))


def test_without_a_driver() -> None:
    code = """
try:
    vulkan.Device.create()
except etarena.DeviceError as error:
    print(error)
"""
    said = outcome(code, VK_ICD_FILENAMES="/nowhere/icd.json", VK_DRIVER_FILES="/nowhere/icd.json")
    assert "mesa-vulkan-drivers" in said


def test_without_the_layer(tmp_path: Path) -> None:
    said = outcome(TRY.format("validation=True"), VK_LAYER_PATH=str(tmp_path))
    assert "VK_LAYER_KHRONOS_validation" in said
    assert "apt-get install vulkan-validationlayers" in said


@pytest.mark.parametrize("index", [99, -1, "0", None, True])
def test_devices_that_are_not_there(index: object) -> None:
    with pytest.raises(etarena.DeviceError, match="there is no Vulkan device"):
        vulkan.Device.create(index)  # type: ignore[arg-type]


def test_without_the_compiled_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import sys
sys.modules["etarena.device.vulkan.core"] = None
try:
    vulkan.Device
except vulkan.MissingFeatureError as error:
    print(error)
"""
    assert "libvulkan-dev" in outcome(code)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Swapchain'"):
        _ = vulkan.Swapchain
    assert set(vulkan.__all__) <= set(dir(vulkan))
    for name in vulkan.__all__:
        assert getattr(vulkan, name) is not None
