"""Copies between buffers, images, tensors and the CPU."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import etarena
from etarena import vulkan

# Bytes of a texel, from the specification's table of formats.
TEXELS = {
    "r8": 1,
    "rgba8": 4,
    "rgba8_srgb": 4,
    "bgra8": 4,
    "bgra8_srgb": 4,
    "r16f": 2,
    "rgba16f": 8,
    "r32f": 4,
    "rgba32f": 16,
}


def random_bytes(nbytes: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("nbytes", [1, 3, 4097, (16 << 20) + 5])
def test_bytes_go_to_the_device_and_back(device: vulkan.Device, nbytes: int, visible: bool) -> None:
    data, out = random_bytes(nbytes), bytearray(nbytes)
    first, second = device.buffer(nbytes), device.buffer(nbytes, host_visible=visible)
    with etarena.record_copies() as ledger:
        device.copy(first, data)
        device.copy(second, first)
        device.copy(out, second)
    assert out == data
    assert [copy.nbytes for copy in ledger] == [nbytes, nbytes]  # the one in the middle stays on the device


def test_staging_is_used_for_memory_in_use(device: vulkan.Device) -> None:
    """A recording that may be submitted again keeps the CPU from writing under it: copies queue up instead."""
    buffer = device.buffer(4096, host_visible=True)
    commands = device.commands()
    commands.begin(once=False)
    commands.fill_buffer(buffer, 0, 4096, 0)
    commands.end()
    blocker = device.timeline()
    running = device.submit(commands, wait=[(blocker, 1)])
    with pytest.raises(vulkan.WaitTimeoutError):
        device.copy(buffer, b"\1" * 4096, timeout=0.05)
    blocker.signal(1)
    running.wait()
    device.wait_idle()
    out = bytearray(4096)
    device.copy(out, buffer)
    assert out == b"\1" * 4096  # after the fill, as submitted


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spans_are_copied_and_nothing_else(device: vulkan.Device, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5000), "size")
    begin = data.draw(st.integers(0, size - 1), "begin")
    count = data.draw(st.integers(1, size - begin), "count")
    to = data.draw(st.integers(0, size - count), "to")
    before, patch = random_bytes(size), random_bytes(size, 1)
    target = device.buffer(size, host_visible=data.draw(st.booleans(), "host_visible"))
    source = device.buffer(size)
    device.copy(target, before)
    device.copy(source, patch)
    device.copy(vulkan.Span(target, to, count), vulkan.Span(source, begin, count))
    out = bytearray(size)
    device.copy(out, target)
    assert out == before[:to] + patch[begin : begin + count] + before[to + count :]


@pytest.mark.parametrize("name", sorted(TEXELS))
@pytest.mark.parametrize("extent", [(1, 1, 1), (5, 3, 1), (64, 33, 1), (4, 3, 2)])
def test_images_keep_their_texels(device: vulkan.Device, name: str, extent: tuple[int, int, int]) -> None:
    width, height, depth = extent
    nbytes = width * height * depth * TEXELS[name]
    data, out = random_bytes(nbytes), bytearray(nbytes)
    usage = 0x1 | 0x2 | 0x4  # copies and sampling: sRGB images cannot be storage
    first = device.image(width, height, name, depth=depth, usage=usage)
    second = device.image(width, height, name, depth=depth, usage=usage)
    buffer = device.buffer(nbytes)
    device.copy(first, data)  # CPU to image
    device.copy(second, first)  # image to image
    device.copy(buffer, second)  # image to buffer
    device.copy(first, bytes(nbytes))
    device.copy(first, buffer)  # buffer to image
    device.copy(out, first)  # image to CPU
    assert out == data
    assert first.view
    assert first.layout == second.layout == 1  # GENERAL


def test_rows_of_images_are_rows_of_pixels(device: vulkan.Device) -> None:
    """Byte order and row order, without a copy back through the same path: one texel at a time by an image copy."""
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    image = device.image(3, 2, "rgba8")
    device.copy(image, pixels)
    buffer = device.buffer(pixels.nbytes, host_visible=True)
    device.copy(buffer, image)
    row = bytearray(12)
    device.copy(row, vulkan.Span(buffer, 12, 12))
    assert row == pixels[1].tobytes()


def test_layouts_of_images_are_kept(device: vulkan.Device) -> None:
    image = device.image(4, 4, "r32f")
    device.copy(image, bytes(64))
    commands = device.commands()
    commands.begin()
    commands.transition(image, 5)  # SHADER_READ_ONLY_OPTIMAL
    commands.end()
    device.submit(commands).wait()
    out = bytearray(64)
    device.copy(out, image)
    assert image.layout == 5
    commands.begin()
    with pytest.raises(ValueError, match="UNDEFINED"):
        commands.transition(image, 0)
    commands.end()


def test_tensors_are_copied_by_their_bytes(device: vulkan.Device) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffer = device.buffer(1024)
    tensor = device.tensor(vulkan.Span(buffer, 256, 48), "float32", (3, 4))
    device.copy(tensor, values)
    out = np.zeros_like(values)
    device.copy(out, tensor)
    assert (out == values).all()
    assert tensor.device == etarena.Device("vulkan", 0)
    assert tensor.resource.details["device"] == device.core.handle
    with pytest.raises(etarena.DeviceError):
        np.asarray(tensor)


def test_tensors_of_images(device: vulkan.Device) -> None:
    image = device.image(5, 2, "rgba32f")
    pixels = np.random.default_rng(3).random((2, 5, 4), dtype=np.float32)
    device.copy(image, pixels)
    tensor = device.tensor(image, "float32", (1, 4, 2, 5))
    assert tensor.resource.details["format"] == 109
    assert tensor.resource.details["view"] == image.view
    out = np.zeros_like(pixels)
    device.copy(out, tensor)
    assert (out == pixels).all()


def test_handles_of_the_same_device_are_adopted(device: vulkan.Device) -> None:
    buffer = device.buffer(64)
    device.copy(buffer, bytes(range(64)))
    foreign = etarena.ETensor.from_vulkan_buffer(buffer.handle, "uint8", (16,), offset=8, device=device.core.handle)
    out = bytearray(16)
    device.copy(out, foreign)
    assert out == bytes(range(8, 24))
    image = device.image(4, 4, "r8")
    device.copy(image, bytes(range(16)))
    foreign = etarena.ETensor.from_vulkan_image(
        image.handle, "uint8", (4, 4), width=4, height=4, format=9, layout=image.layout, device=device.core.handle
    )
    device.copy(out, foreign)
    assert out == bytes(range(16))


def test_copies_can_run_beside_the_cpu(device: vulkan.Device) -> None:
    first, second, third = (device.buffer(64, host_visible=True) for _ in range(3))
    device.copy(first, b"\7" * 64)
    ready, done = device.timeline(), device.timeline(5)
    one = device.copy(second, first, wait=[(ready, 1)], signal=[(ready, 2)], blocking=False)
    two = device.copy(third, second, wait=[(ready, 2)], signal=[(done, 6)], blocking=False)
    assert one is not None
    assert two is not None
    assert not one.done()
    assert done.value == 5
    ready.signal(1)
    done.wait(6)
    two.wait()
    assert one.done()
    out = bytearray(64)
    device.copy(out, third)
    assert out == b"\7" * 64


def test_binary_semaphores_order_copies(device: vulkan.Device) -> None:
    first, second, third = (device.buffer(64) for _ in range(3))
    device.copy(first, b"\7" * 64)
    between = device.semaphore()
    device.copy(second, first, signal=[between], blocking=False)
    with pytest.raises(etarena.DeviceError, match="signalled already"):
        device.copy(second, first, signal=[between])
    device.copy(third, second, wait=[between])
    with pytest.raises(etarena.DeviceError, match="wait for ever"):
        device.copy(third, second, wait=[between])
    out = bytearray(64)
    device.copy(out, third)
    assert out == b"\7" * 64


def test_copies_within_the_device_are_no_copies_of_the_cpu(device: vulkan.Device) -> None:
    first, second = device.buffer(64), device.buffer(64)
    with etarena.zero_copy():
        device.copy(second, first)
        with pytest.raises(etarena.CopyRefusedError, match="64 bytes go from"):
            device.copy(bytearray(64), second)


def test_what_cannot_be_copied_is_refused(device: vulkan.Device) -> None:
    buffer, image = device.buffer(64), device.image(4, 4, "rgba8")
    for to, source, message in [
        (buffer, bytes(63), "63 bytes cannot be copied into 64 bytes"),
        (buffer, image, "UNDEFINED"),
        (buffer, "text", "a str is no Buffer"),
        (bytes(64), buffer, "writable"),
        (buffer, np.zeros((8, 16), np.uint8)[:, ::2], "contiguous"),
        (bytearray(64), bytes(64), "neither end"),
        (buffer, buffer, "overlaps itself"),
        (image, vulkan.Span(device.buffer(128), 2, 64), "multiple of 4 bytes, not at 2"),
        (image, image, "another image"),
    ]:
        with pytest.raises(etarena.Error, match=message):
            device.copy(to, source)
    assert image.layout == 0
    with pytest.raises(ValueError, match="blocking=False"):
        device.copy(buffer, bytes(64), blocking=False)
    device.copy(buffer, bytes(64))


def test_usage_is_checked(device: vulkan.Device) -> None:
    storage, plain = device.buffer(64, usage=0x20), device.buffer(64)
    with pytest.raises(etarena.DeviceError, match="without the usage TRANSFER_DST"):
        device.copy(storage, plain)
    with pytest.raises(etarena.DeviceError, match="without the usage TRANSFER_SRC"):
        device.copy(plain, storage)
    sampled = device.image(4, 4, "rgba8", usage=0x4)
    with pytest.raises(etarena.DeviceError, match="without the usage TRANSFER_DST"):
        device.copy(sampled, plain)
    device.copy(plain, bytes(64))


def test_things_of_another_device_are_refused(device: vulkan.Device) -> None:
    with vulkan.Device.create() as other, other.buffer(64) as foreign, device.buffer(64) as buffer:
        with pytest.raises(etarena.DeviceError, match="of another Vulkan device"):
            device.copy(buffer, foreign)
        with pytest.raises(etarena.DeviceError, match="of another Vulkan device"):
            device.tensor(foreign, "uint8", (64,))
        tensor = other.tensor(foreign, "uint8", (64,))
        with pytest.raises(etarena.DeviceError, match="belongs to VkDevice"):
            device.copy(buffer, tensor)
        del tensor
        semaphore = other.timeline()
        with pytest.raises(etarena.DeviceError, match="semaphore of another"):
            device.copy(buffer, device.buffer(64), wait=[(semaphore, 1)])
        del semaphore


def test_rows_that_are_not_those_of_the_image_are_refused(device: vulkan.Device) -> None:
    """Recorded by hand: a copy reads and writes as many bytes as the image has, whatever was said."""
    image, other, buffer = device.image(4, 4, "rgba8"), device.image(4, 4, "rgba16f"), device.buffer(128)
    device.copy(image, bytes(64))
    commands = device.commands()
    commands.begin()
    for offset, nbytes, message in [(0, 63, "has 64 bytes of texels, 63"), (0, 128, "128 bytes"), (2, 64, "not at 2")]:
        with pytest.raises(etarena.Error, match=message):
            commands.copy_to_image(buffer, offset, nbytes, image)
        with pytest.raises(etarena.Error, match=message):
            commands.copy_from_image(image, buffer, offset, nbytes)
    with pytest.raises(etarena.InputError, match="same texel size"):
        commands.copy_image(image, other)
    commands.end()
    device.run(commands)
