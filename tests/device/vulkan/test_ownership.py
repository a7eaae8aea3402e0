"""Queue families that own buffers and images: what is released and acquired, and what is refused.

Mesa's CPU device has one family; the family of whoever shares memory from outside stands for the others.
"""

import pytest

import etarena
from etarena import vulkan

GENERAL, SHADER_READ_ONLY = 1, 5


def test_owners_change_and_contents_stay(device: vulkan.Device) -> None:
    buffer, image = device.buffer(64), device.image(4, 4, "rgba8")
    device.copy(buffer, bytes(range(64)))
    device.copy(image, bytes(range(64)))
    commands = device.commands()
    commands.begin()
    commands.release((buffer, 16, 32), "external")
    commands.release(image, "external", SHADER_READ_ONLY)
    assert buffer.uses == image.uses == {"recorded commands": 1}
    commands.end()
    device.run(commands)
    assert image.layout == SHADER_READ_ONLY
    commands.begin()
    commands.acquire((buffer, 16, 32), "external")
    commands.acquire(image, "external", GENERAL, SHADER_READ_ONLY)
    commands.end()
    device.run(commands)
    assert image.layout == GENERAL
    for what in (buffer, image):
        out = bytearray(64)
        device.copy(out, what)
        assert out == bytes(range(64))


def test_the_same_family_gets_a_barrier_and_the_layout(device: vulkan.Device) -> None:
    buffer, image = device.buffer(64), device.image(4, 4, "rgba8")
    device.copy(image, bytes(range(64)))
    family = device.core.queue_family_index
    commands = device.commands()
    commands.begin()
    commands.fill_buffer(buffer, 0, 64, 7)
    commands.release(buffer, family)
    commands.release(image, family, SHADER_READ_ONLY)
    commands.acquire(image, family, GENERAL)
    commands.acquire(buffer, family)
    commands.end()
    device.run(commands)
    out = bytearray(64)
    device.copy(out, image)
    assert out == bytes(range(64))
    assert image.layout == GENERAL


def test_owners_that_are_none_are_refused(device: vulkan.Device) -> None:
    buffer, image, fresh = device.buffer(64), device.image(4, 4, "rgba8"), device.image(4, 4, "rgba8")
    device.copy(image, bytes(64))
    count = len(device.info.queue_families)
    commands = device.commands()
    with pytest.raises(etarena.DeviceError, match="call begin first"):
        commands.release(buffer, "external")
    commands.begin()
    for record in (commands.release, commands.acquire):
        for family in (count, -1, 0xFFFFFFFF, "foreign", None, True):
            with pytest.raises(etarena.InputError, match=r"queue family .* counted from 0; or 'external'"):
                record(buffer, family)  # type: ignore[arg-type]
        for what in (None, 3, (buffer, 0), (image, 0, 4)):
            with pytest.raises(etarena.InputError, match="expected a Buffer"):
                record(what, "external")  # type: ignore[arg-type]
        for offset, nbytes in ((0, 65), (64, 1), (0, 0)):
            with pytest.raises(etarena.DeviceError, match="not inside a buffer of 64 bytes"):
                record((buffer, offset, nbytes), "external")
        for offset, nbytes in ((-4, 4), ("0", 4), (0, 4.0)):
            with pytest.raises(etarena.InputError, match="whole numbers"):
                record((buffer, offset, nbytes), "external")  # type: ignore[arg-type]
        with pytest.raises(etarena.InputError, match="which is not UNDEFINED"):
            record(fresh, "external")
        with pytest.raises(etarena.InputError, match="which is not UNDEFINED"):
            record(image, "external", 0)
    with (
        vulkan.Device.create() as other,
        other.buffer(64) as foreign,
        pytest.raises(etarena.DeviceError, match="Buffer of another Vulkan device"),
    ):
        commands.release(foreign, "external")
    buffer.close()
    with pytest.raises(etarena.DeviceError, match="Buffer is closed"):
        commands.release((buffer, 0, 4), "external")
    commands.end()
    device.run(commands)
    assert (image.layout, fresh.layout) == (GENERAL, 0)
