"""Buffers and images as tensors: those of etarena and those of the application, and what is refused."""

import gc
from typing import Any

import numpy as np
import pytest

import etarena
from etarena import ETensor, ResourceKind, vulkan


def test_a_buffer_is_a_tensor(device: vulkan.Device) -> None:
    with device.buffer(256) as buffer:
        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        device.copy(vulkan.Span(buffer, 64, 48), values)
        tensor = ETensor.from_vulkan_buffer(device, buffer, "float32", (3, 4), offset=64)
        assert (tensor.shape, tensor.dtype, str(tensor.device)) == ((3, 4), "float32", "vulkan:0")
        assert tensor.resource.kind == ResourceKind.VK_BUFFER
        assert (tensor.resource.handle, tensor.resource.offset) == (buffer.handle, 64)
        out = np.empty_like(values)
        device.copy(out, ETensor.from_vulkan_buffer(device, buffer.handle, "float32", (3, 4), offset=64, nbytes=48))
        np.testing.assert_array_equal(out, values)
        with pytest.raises(etarena.DeviceError, match="in use"):
            buffer.close()
        del tensor


def test_the_handle_of_a_buffer_is_a_tensor(device: vulkan.Device) -> None:
    with device.buffer(256) as buffer:
        tensor = ETensor.from_vulkan_buffer(device, buffer.handle, "uint8", (16,), offset=8)
        device.copy(tensor, bytes(range(16)))
        out = bytearray(16)
        device.copy(out, vulkan.Span(buffer, 8, 16))
        assert out == bytes(range(16))
        del tensor


def test_an_image_is_a_tensor_of_its_colours(device: vulkan.Device) -> None:
    for format in vulkan.FORMATS:
        shape = vulkan.FORMATS[format]
        with device.image(5, 3, format) as image:
            for channels in (1, 3, 4) if shape.channels == 4 else (1,):
                tensor = ETensor.from_vulkan_image(device, image, channels=channels)
                assert (tensor.shape, tensor.dtype) == ((1, channels, 3, 5), "float32")
                assert str(tensor.device) == "vulkan:0"
                details = tensor.resource.details
                assert (tensor.resource.handle, details["format"]) == (image.handle, shape.number)
                assert (details["width"], details["height"], details["usage"]) == (5, 3, image.usage)
                assert details["colour_space"] == int(shape.srgb)
                del tensor


def test_the_applications_image_is_a_tensor(device: vulkan.Device) -> None:
    with device.image(5, 3, "rgba16f") as image:
        tensor = ETensor.from_vulkan_image(
            device, image.handle, 5, 3, "rgba16f", layout="shader_read_only", channels=4, colour_space="srgb", usage=0x5
        )
        details = tensor.resource.details
        assert (details["layout"], details["colour_space"], details["usage"]) == (5, 1, 5)
        assert details["device"] == device.core.handle
        assert details["view"] != 0
        del tensor


def test_closing_what_is_a_tensor_is_refused(device: vulkan.Device) -> None:
    image = device.image(4, 4, "rgba8")
    tensor = ETensor.from_vulkan_image(device, image)
    with pytest.raises(etarena.DeviceError, match="a tensor of it"):
        image.close()
    with pytest.raises(etarena.DeviceError, match="1 image"):
        device.close()
    tensor.close()
    del tensor
    gc.collect()
    image.close()


def test_colours_are_not_read_as_bytes(device: vulkan.Device) -> None:
    """A float tensor of an 8-bit image has other bytes than the image: nothing copies them by mistake."""
    etarena.register_device_allocator(vulkan.VulkanAllocator(device), replace=True)
    try:
        with device.image(4, 4, "rgba8") as image:
            device.copy(image, bytes(64))
            tensor = ETensor.from_vulkan_image(device, image)
            for use in (tensor.numpy, tensor.cpu, tensor.clone):
                with pytest.raises(etarena.DeviceError):
                    use()
            del tensor, use
    finally:
        etarena.unregister_device_allocator("vulkan")
    gc.collect()


BAD_IMAGES: list[tuple[dict[str, Any], str]] = [
    ({"image": 0}, "null handle"),
    ({"image": "picture"}, "no handle"),
    ({"width": None}, "width, height and format"),
    ({"format": None}, "width, height and format"),
    ({"width": 0}, "width=0"),
    ({"height": -1}, "height=-1"),
    ({"width": 1 << 20}, "width=1048576"),
    ({"height": 2.5}, "height=2.5"),
    ({"format": "rgb8"}, "image format 'rgb8' is not known"),
    ({"format": 23}, "image format 23 is not known"),
    ({"layout": "somewhere"}, "layout 'somewhere'"),
    ({"layout": 99}, "layout 99"),
    ({"layout": 3}, "layout 3"),  # DEPTH_STENCIL_ATTACHMENT_OPTIMAL
    ({"channels": 2}, "channels=2"),
    ({"channels": 0}, "channels=0"),
    ({"format": "r32f"}, "channels=3: tensors of r32f have 1"),
    ({"colour_space": "rec2020"}, "'linear' or 'srgb'"),
    ({"format": "rgba8_srgb", "colour_space": "linear"}, "sRGB-encoded"),
    ({"usage": 0x10}, "usage 0x10"),  # COLOR_ATTACHMENT alone
    ({"usage": 0}, "usage 0x0"),
]


@pytest.mark.parametrize(("change", "message"), BAD_IMAGES, ids=[message for _, message in BAD_IMAGES])
def test_images_that_do_not_fit_are_refused(device: vulkan.Device, change: dict[str, Any], message: str) -> None:
    with device.image(4, 4, "rgba8") as image:
        given = {"image": image.handle, "width": 4, "height": 4, "format": "rgba8", **change}
        with pytest.raises(etarena.Error, match=message):
            ETensor.from_vulkan_image(device, **given)


def test_what_contradicts_the_image_is_refused(device: vulkan.Device) -> None:
    with device.image(4, 4, "rgba8") as image, device.image(4, 4, "rgba8", depth=2) as deep:
        for change, message in [({"width": 5}, "has 4 texels"), ({"format": "bgra8"}, "has rgba8")]:
            with pytest.raises(etarena.DeviceError, match=message):
                ETensor.from_vulkan_image(device, image, **change)
        with pytest.raises(etarena.DeviceError, match="depth"):
            ETensor.from_vulkan_image(device, deep)


def test_buffers_that_do_not_fit_are_refused(device: vulkan.Device) -> None:
    with device.buffer(64) as buffer:
        for where, more, message in [
            (buffer, {"offset": 32}, "32"),
            (buffer, {"offset": 128}, "not inside a buffer of 64"),
            (buffer, {"nbytes": 8}, "takes 64 bytes"),
            (buffer.handle, {"nbytes": 8}, "takes 64 bytes"),
            (buffer.handle, {"offset": 2}, "multiple of the 4 bytes"),
            (buffer.handle, {"offset": -4}, "negative"),
            (buffer.handle, {"usage": 0x80}, "usage 0x80"),  # VERTEX_BUFFER alone
            (0, {}, "null handle"),
            ("memory", {}, "no handle"),
        ]:
            with pytest.raises(etarena.Error, match=message):
                ETensor.from_vulkan_buffer(device, where, "float32", (4, 4), **more)


def test_things_of_another_device_are_refused(device: vulkan.Device) -> None:
    with vulkan.Device.create() as other:
        with other.buffer(64) as buffer, pytest.raises(etarena.DeviceError, match="another Vulkan device"):
            ETensor.from_vulkan_buffer(device, buffer, "float32", (4, 4))
        with other.image(4, 4, "rgba8") as image, pytest.raises(etarena.DeviceError, match="another Vulkan device"):
            ETensor.from_vulkan_image(device, image)
        gc.collect()
