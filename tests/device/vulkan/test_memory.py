"""Buffers, images and their memory: limits, import of CPU memory, file descriptors, lifetimes."""

import ctypes
import mmap
import os

import pytest

import etarena
from etarena import vulkan
from etarena.device.vulkan.device_memory import BUFFER_USAGE
from etarena.device.vulkan.memory import Buffer, Memory


def mapped_pages(nbytes: int) -> tuple[mmap.mmap, int]:
    pages = mmap.mmap(-1, nbytes)
    return pages, ctypes.addressof(ctypes.c_ubyte.from_buffer(pages))


def test_memory_is_counted_and_limited(device: vulkan.Device) -> None:
    before = device.core.memory_live
    first = device.buffer(1 << 20)
    taken = device.core.memory_live - before
    assert taken >= 1 << 20
    device.core.memory_limit = device.core.memory_live + (1 << 20)
    second = device.buffer(1 << 19)
    with pytest.raises(vulkan.OutOfMemoryError, match="more than the limit of") as caught:
        device.buffer(1 << 20)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.code_name == "VK_ERROR_OUT_OF_DEVICE_MEMORY"
    first.close()
    third = device.buffer(1 << 20)
    for buffer in (second, third):
        buffer.close()
    assert device.core.memory_live == before


@pytest.mark.parametrize("nbytes", [1 << 40, 1 << 62, 1 << 63])
def test_sizes_that_no_device_has(device: vulkan.Device, nbytes: int) -> None:
    before = device.live_objects
    with pytest.raises(MemoryError, match="largest allocation"):
        device.buffer(nbytes)
    assert device.live_objects == before
    device.buffer(64).close()


@pytest.mark.parametrize("call", ["vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory"])
@pytest.mark.parametrize("code", [-1, -2])
def test_running_out_of_memory_leaves_nothing(device: vulkan.Device, call: str, code: int) -> None:
    before = device.live_objects, device.core.memory_live
    device.core.inject(call, code)
    with pytest.raises(vulkan.OutOfMemoryError, match=f"{call}: VK_ERROR_OUT_OF"):
        device.buffer(4096)
    assert (device.live_objects, device.core.memory_live) == before
    device.buffer(4096).close()


@pytest.mark.parametrize("call", ["vkCreateImage", "vkAllocateMemory", "vkBindImageMemory"])
def test_running_out_of_memory_for_images(device: vulkan.Device, call: str) -> None:
    before = device.live_objects
    device.core.inject(call, -2)
    with pytest.raises(vulkan.OutOfMemoryError):
        device.image(16, 16, "rgba8")
    assert device.live_objects == before


def test_empty_things_are_refused(device: vulkan.Device) -> None:
    for make in (
        lambda: device.buffer(0),
        lambda: device.buffer(-1),
        lambda: device.image(0, 4, "rgba8"),
        lambda: device.image(1 << 20, 4, "rgba8"),
        lambda: device.image(4, 4, "yuv"),
        lambda: device.image(4, 4, 1000),
        lambda: Memory(device.core, 0, 0),
    ):
        with pytest.raises(etarena.Error):
            make()


def test_memory_of_the_cpu_is_used_in_place(device: vulkan.Device) -> None:
    step = device.info.limits["minImportedHostPointerAlignment"]
    pages, address = mapped_pages(4 * step)
    pages[:] = b"\1" * len(pages)
    imported = device.import_host(address + step, 2 * step, owner=pages)
    commands = device.commands()
    with etarena.zero_copy():
        commands.begin()
        commands.fill_buffer(imported, 4, step, 0x02020202)
        commands.end()
        device.submit(commands).wait()
    assert pages[:] == b"\1" * (step + 4) + b"\2" * step + b"\1" * (2 * step - 4)
    pages[step : step + 4] = b"abcd"
    out = bytearray(4)
    device.copy(out, vulkan.Span(imported, 0, 4))
    assert out == b"abcd"
    assert device.core.memory_live < 2 * step  # imported memory is not the device's


def test_bad_memory_of_the_cpu_is_refused(device: vulkan.Device) -> None:
    step = device.info.limits["minImportedHostPointerAlignment"]
    pages, address = mapped_pages(2 * step)
    before = device.live_objects
    for start, nbytes in [
        (address + 64, step),
        (address, step + 1),
        (address, 0),
        (address, -step),
        (0, step),
        (1 << 46, step),  # not mapped
        (address, 1 << 50),
    ]:
        with pytest.raises(etarena.Error):
            device.import_host(start, nbytes, owner=pages)
    assert device.live_objects == before
    device.core.inject("vkGetMemoryHostPointerPropertiesEXT", -1000072003)
    with pytest.raises(vulkan.VulkanError, match="VK_ERROR_INVALID_EXTERNAL_HANDLE"):
        device.import_host(address, step, owner=pages)
    device.import_host(address, step, owner=pages).close()


def test_a_file_descriptor_is_the_same_memory(device: vulkan.Device) -> None:
    exported = device.buffer(10000, export=True)
    number = device.export_fd(exported)
    try:
        imported = device.import_fd(number, 10000)
    finally:
        os.close(number)
    device.copy(exported, b"\5" * 10000)
    out = bytearray(10000)
    device.copy(out, imported)
    assert out == b"\5" * 10000
    exported.close()
    device.copy(out, imported)
    assert out == b"\5" * 10000


def test_a_file_descriptor_goes_to_another_device(device: vulkan.Device) -> None:
    exported = device.buffer(4096, export=True)
    device.copy(exported, bytes(range(256)) * 16)
    with vulkan.Device.create(validation=True) as other:
        assert other.info.device_uuid == device.info.device_uuid
        number = device.export_fd(exported)
        imported = other.import_fd(number, 4096)
        os.close(number)
        out = bytearray(4096)
        other.copy(out, imported)
        assert out == bytes(range(256)) * 16
        imported.close()
        assert other.messages == []


def test_bad_file_descriptors_are_refused(device: vulkan.Device) -> None:
    before = device.live_objects
    with pytest.raises(etarena.DeviceError, match="no open file descriptor"):
        device.import_fd(987654, 64)
    with pytest.raises(etarena.DeviceError, match="no open file descriptor"):
        device.import_fd(-1, 64)
    exported = device.buffer(4096, export=True)
    number = device.export_fd(exported)
    with pytest.raises(etarena.DeviceError, match="the buffer needs"):
        device.import_fd(number, 1 << 20)
    os.close(number)
    with pytest.raises(etarena.DeviceError, match="export=True"):
        device.export_fd(device.buffer(64))
    exported.close()
    assert device.live_objects == before


def test_things_in_use_are_not_closed(device: vulkan.Device) -> None:
    buffer = device.buffer(64)
    with pytest.raises(etarena.DeviceError, match="in use: 1 x a buffer in it"):
        buffer.memory.close()
    tensor = device.tensor(buffer, "uint8", (64,))
    with pytest.raises(etarena.DeviceError, match="in use: 1 x a resource of it"):
        buffer.close()
    del tensor
    commands = device.commands()
    commands.begin()
    commands.fill_buffer(buffer, 0, 64)
    commands.end()
    with pytest.raises(etarena.DeviceError, match="in use: 1 x recorded commands"):
        buffer.close()
    commands.forget()
    buffer.close()
    buffer.close()
    for use in (lambda: buffer.handle, lambda: buffer.resource(), lambda: buffer.lease("me")):
        with pytest.raises(etarena.DeviceError, match="this Vulkan Buffer is closed"):
            use()
    with pytest.raises(etarena.DeviceError, match="closed"):
        device.copy(buffer, bytes(64))


def test_a_device_with_things_left_is_not_closed(device: vulkan.Device) -> None:
    buffer, image = device.buffer(64), device.image(4, 4, "r8")
    with pytest.raises(etarena.DeviceError, match="still has 1 buffer, 2 memory blocks, 1 image"):
        device.close()
    device.copy(buffer, bytes(64))  # it works on
    buffer.close()
    image.close()


def test_objects_outlive_the_python_device() -> None:
    buffer = vulkan.Device.create(validation=True).buffer(64, host_visible=True)
    assert buffer.memory.map()
    core = buffer.core
    buffer.close()
    assert core.live_objects() == {}
    assert core.instance.messages() == []


def test_parts_of_buffers(device: vulkan.Device) -> None:
    buffer = device.buffer(100)
    resource = buffer.resource(10, 20)
    assert (resource.offset, resource.nbytes, resource.handle) == (10, 20, buffer.handle)
    for offset, nbytes in [(0, 101), (101, 0), (90, 11)]:
        with pytest.raises(etarena.DeviceError, match="not inside a buffer of 100 bytes"):
            buffer.resource(offset, nbytes)


def test_unmappable_memory_says_so(device: vulkan.Device) -> None:
    buffer = Buffer(device.core, 64, BUFFER_USAGE)
    size, _, _ = buffer.requirements
    memory = Memory(device.core, size, 0, properties=1)  # as a type that is device-local only
    buffer.bind(memory)
    with pytest.raises(etarena.DeviceError, match="not host-visible"):
        memory.map()
    device.copy(buffer, b"\3" * 64)  # through staging memory
    out = bytearray(64)
    device.copy(out, buffer)
    assert out == b"\3" * 64


def test_usages_that_vulkan_forbids(device: vulkan.Device) -> None:
    before = device.live_objects
    for make in (
        lambda: device.buffer(64, usage=0),
        lambda: device.buffer(64, usage=1 << 30),
        lambda: device.image(4, 4, "r8", usage=0),
        lambda: device.image(4, 4, "r8", usage=1 << 20),
        lambda: device.image(4, 4, "rgba8", usage=0x20),  # a colour format as depth attachment
    ):
        with pytest.raises(etarena.Error, match="usage"):
            make()
    assert device.live_objects == before
    assert device.image(4, 4, "rgba8_srgb").view


def test_bindings_that_vulkan_forbids(device: vulkan.Device) -> None:
    size = Buffer(device.core, 4096, BUFFER_USAGE).requirements[0]
    memory, small = (Memory(device.core, nbytes, 0, properties=3) for nbytes in (2 * size, size // 2))
    buffer = Buffer(device.core, 4096, BUFFER_USAGE)
    commands = device.commands()
    commands.begin()
    with pytest.raises(etarena.DeviceError, match="has no memory: bind it first"):
        commands.fill_buffer(buffer, 0, 64)
    commands.end()
    for wrong, offset in [(small, 0), (memory, 1), (memory, 2 * size), (memory, (1 << 64) - size)]:
        with pytest.raises(etarena.DeviceError, match="are needed, not at"):
            buffer.bind(wrong, offset)
    buffer.bind(memory, size)
    with pytest.raises(etarena.DeviceError, match="has memory already"):
        buffer.bind(memory)
    with pytest.raises(ValueError, match="memory type 32"):
        Memory(device.core, 64, 32)
    device.copy(buffer, b"\1" * 4096)
    assert ctypes.string_at(memory.map() + size, 4096) == b"\1" * 4096


@pytest.mark.parametrize(("offset", "nbytes"), [(-4, 8), (0, 101), (101, 0), (90, 11), (4, -4), (1 << 70, 1)])
def test_spans_lie_inside_their_buffer(device: vulkan.Device, offset: int, nbytes: int) -> None:
    with device.buffer(100) as buffer, pytest.raises(etarena.DeviceError, match="not inside a buffer of 100 bytes"):
        vulkan.Span(buffer, offset, nbytes)
