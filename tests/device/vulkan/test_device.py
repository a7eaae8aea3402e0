"""Devices: that one is really used, what they say about themselves, time stamps, and what is checked."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

import etarena
from etarena import vulkan

LAYOUT_TRANSFER_DST = 7
ROOT = Path(__file__).parent.parent.parent.parent


def test_a_vulkan_device_is_really_used(device: vulkan.Device) -> None:
    assert device.info.name == vulkan.physical_devices()[0].name
    assert device.core.handle
    assert device.core.queue_handle
    with device.buffer(1 << 16, host_visible=True) as buffer, device.commands() as commands:
        commands.begin()
        commands.fill_buffer(buffer, 0, buffer.nbytes, 0x01020304)
        commands.end()
        submission = device.submit(commands)
        submission.wait()
        out = bytearray(1 << 16)
        device.copy(out, buffer)
        commands.forget()
    assert out == bytes([4, 3, 2, 1]) * (1 << 14)


def test_the_loader_names_the_driver_that_ran(device: vulkan.Device) -> None:
    maps = Path("/proc/self/maps").read_text()
    assert "libvulkan.so" in maps
    assert "libVkLayer_khronos_validation" in maps
    assert device.info.driver_name


def test_information_is_plain_data(device: vulkan.Device) -> None:
    info = device.info
    assert tuple(map(int, info.api_version.split("."))) >= (1, 2, 0)
    assert info.kind in ("cpu", "integrated gpu", "discrete gpu", "virtual gpu", "other")
    # Limits that every Vulkan device must have, from the specification's table of required limits.
    assert info.limits["maxStorageBufferRange"] >= 1 << 27
    assert info.limits["maxPushConstantsSize"] >= 128
    assert info.limits["maxComputeWorkGroupInvocations"] >= 128
    assert info.limits["maxComputeWorkGroupCountX"] >= 65535
    assert info.limits["minStorageBufferOffsetAlignment"] <= 256
    assert info.limits["maxMemoryAllocationSize"] >= 1 << 30
    assert any(heap.device_local for heap in info.memory_heaps)
    assert all(kind.heap < len(info.memory_heaps) for kind in info.memory_types)
    assert any(kind.host_visible and kind.host_coherent for kind in info.memory_types)
    assert any(family.compute for family in info.queue_families)
    assert len(info.device_uuid) == len(info.driver_uuid) == 16
    assert device.enabled_extensions <= info.extensions
    assert device.enabled_features <= info.features
    assert "timelineSemaphore" in info.features


def test_time_stamps_grow_with_the_work(device: vulkan.Device) -> None:
    buffer, pool = device.buffer(32 << 20), device.query_pool(3)
    commands = device.commands()
    commands.begin()
    commands.reset_queries(pool)
    commands.write_timestamp(pool, 0)
    commands.fill_buffer(buffer, 0, buffer.nbytes, 1)
    commands.write_timestamp(pool, 1)
    commands.fill_buffer(buffer, 0, buffer.nbytes, 2)
    commands.write_timestamp(pool, 2)
    commands.end()
    device.submit(commands).wait()
    first, second, third = device.nanoseconds(pool)
    assert first == 0
    assert 0 < second < third < 60e9


def test_unwritten_time_stamps_are_refused(device: vulkan.Device) -> None:
    pool = device.query_pool(1)
    commands = device.commands()
    commands.begin()
    commands.reset_queries(pool)
    commands.end()
    device.submit(commands).wait()
    with pytest.raises(etarena.DeviceError, match="not all time stamps are written"):
        device.nanoseconds(pool)
    commands.begin()
    with pytest.raises(ValueError, match="time stamp 1 of a pool of 1"):
        commands.write_timestamp(pool, 1)
    commands.end()
    with pytest.raises(ValueError, match="0 time stamps"):
        device.query_pool(0)


def test_the_validation_layer_sees_wrong_layouts() -> None:
    with vulkan.Device.create(validation=True) as device:
        image = device.image(4, 4, "rgba8")
        image.layout = LAYOUT_TRANSFER_DST  # a lie: nothing brought it there
        device.copy(image, bytes(64))
        assert [message.severity for message in device.messages]
        assert any("layout" in message.text.lower() for message in device.messages)
        image.close()


def test_the_validation_layer_sees_missing_barriers() -> None:
    fill = ctypes.CDLL("libvulkan.so.1").vkCmdFillBuffer
    fill.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32]
    with (
        vulkan.Device.create(validation=True) as device,
        device.buffer(64) as buffer,
        device.commands() as commands,
    ):
        commands.begin()
        for value in (1, 2):
            fill(commands.handle, buffer.handle, 0, 64, value)
        commands.end()
        assert any("HAZARD" in message.id or "HAZARD" in message.text for message in device.messages)


def test_without_validation_nothing_is_loaded_or_said() -> None:
    with vulkan.Device.create() as device:
        assert device.messages == []
        assert not device.info.name.startswith("etarena")


def test_closing_twice_and_use_after_closing(device: vulkan.Device) -> None:
    device.close()
    device.close()
    assert device.is_closed
    assert "closed" in repr(device)
    for use in (lambda: device.buffer(4), device.timeline, device.commands, lambda: device.image(1, 1, "r8")):
        with pytest.raises(etarena.DeviceError, match="this Vulkan device is closed"):
            use()


def test_a_dropped_device_leaves_nothing(device: vulkan.Device) -> None:
    before = device.live_objects
    buffer = device.buffer(64)
    tensor = device.tensor(buffer, "float32", (4, 4))
    assert device.live_objects != before
    del buffer
    assert tensor.resource.nbytes == 64
    assert device.live_objects != before
    del tensor
    assert device.live_objects == before


def test_no_module_links_libvulkan() -> None:
    import etarena.device.vulkan.core as core

    modules = sorted(Path(core.__file__).parent.glob("*.so"))
    assert len(modules) >= 4
    for module in modules:
        linked = subprocess.run(["ldd", str(module)], capture_output=True, text=True, check=True).stdout
        assert "libc.so" in linked
        assert "libvulkan" not in linked


def test_only_the_lowest_layer_calls_vulkan() -> None:
    calls = [
        f"{path.relative_to(ROOT)}: {match}"
        for folder in ("device", "delegates", "etarena")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".pyx", ".pxd", ".h", ".cpp") and path.parent != ROOT / "device/vulkan/native"
        for match in re.findall(r"\bvk[A-Z]\w+\s*\(", path.read_text())
    ]
    assert calls == []
    # The wrappers reach Vulkan through their function tables alone, so a call by name would not link.
    native = "".join(path.read_text() for path in (ROOT / "device/vulkan/native").glob("*.h"))
    assert "VK_NO_PROTOTYPES" in native


def test_importing_it_is_light() -> None:
    code = (
        "import sys, etarena.vulkan; etarena.vulkan.Device; "
        "assert not {'torch', 'executorch', 'numpy'} & set(sys.modules), sys.modules; "
        "assert 'libvulkan' not in open('/proc/self/maps').read()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
