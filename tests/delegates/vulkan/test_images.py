"""Images to tensors and back, compared with NumPy: every format, odd sizes, sRGB by the standard's formula."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import etarena
from etarena import vulkan
from etarena.delegates.vulkan.images import record_image_to_tensor, record_tensor_to_image, tensor_bytes, texel_bytes

ONE_CHANNEL = ("r8", "r16f", "r32f")
SHADER_READ_ONLY, TRANSFER_SRC = 5, 6  # VkImageLayout
WAYS = {"in place": False, "through a buffer": True}
COPIES = 0x3  # usage TRANSFER_SRC and TRANSFER_DST


@pytest.fixture(scope="module")
def shared() -> Iterator[vulkan.Device]:
    """One device for all, as each would compile its shaders anew."""
    device = vulkan.Device.create(validation=True)
    yield device
    gc.collect()
    device.close()
    assert device.messages == []


@pytest.fixture
def device(shared: vulkan.Device) -> Iterator[vulkan.Device]:
    """The device, with what the validation layer says about one test."""
    before = len(shared.messages)
    yield shared
    assert shared.messages[before:] == []


def stored(format: str, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Random texels of a format as they lie in memory; floats go beyond 0 to 1."""
    shape = vulkan.FORMATS[format]
    rng = np.random.default_rng(seed)
    sizes = (height, width, shape.channels)
    if shape.dtype == "uint8":
        return rng.integers(0, 256, sizes, dtype=np.uint8)
    return rng.normal(0.5, 1.0, sizes).astype(shape.dtype)


def colours(format: str, texels: np.ndarray) -> np.ndarray:
    """Texels as numbers, red first, float64 (height, width, channels)."""
    out = texels / 255.0 if texels.dtype == np.uint8 else texels.astype(np.float64)
    return out[:, :, [2, 1, 0, 3]] if format.startswith("bgra") else out


def decoded(x: np.ndarray) -> np.ndarray:
    """IEC 61966-2-1: encoded to linear."""
    return np.where(x <= 0.04045, x / 12.92, (np.maximum(x, 0) / 1.055 + 0.055 / 1.055) ** 2.4)


def encoded(x: np.ndarray) -> np.ndarray:
    """IEC 61966-2-1: linear to encoded."""
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 0) ** (1 / 2.4) - 0.055)


def picked(values: np.ndarray, channels: int) -> np.ndarray:
    """The channels of a tensor (1, channels, height, width)."""
    if channels == 1 and values.shape[2] == 4:
        values = values[:, :, :3] @ np.array([[0.2126], [0.7152], [0.0722]])
    return values[:, :, :channels].transpose(2, 0, 1)[None]


def read(device: vulkan.Device, image: Any, channels: int, **more: Any) -> np.ndarray:
    """The tensor that the device makes of an image."""
    with device.buffer(tensor_bytes(image, channels) + 256) as buffer, device.commands() as commands:
        commands.begin()
        record_image_to_tensor(device, commands, image, buffer, 256, channels=channels, **more)
        commands.end()
        device.submit(commands).wait()
        commands.forget()
        out = np.empty((1, channels, image.height, image.width), np.float32)
        device.copy(out, vulkan.Span(buffer, 256, out.nbytes))
    return out


def write(device: vulkan.Device, image: Any, tensor: np.ndarray, **more: Any) -> np.ndarray:
    """The texels that the device makes of a tensor."""
    shape = vulkan.format_of(image.format)
    with device.buffer(tensor.nbytes + 256) as buffer, device.commands() as commands:
        device.copy(vulkan.Span(buffer, 256, tensor.nbytes), tensor)
        commands.begin()
        record_tensor_to_image(device, commands, buffer, 256, image, channels=tensor.shape[1], **more)
        commands.end()
        device.submit(commands).wait()
        commands.forget()
    out = np.empty((image.height, image.width, shape.channels), shape.dtype)
    device.copy(out, image)
    return out


def choices(format: str) -> list[int]:
    return [1] if format in ONE_CHANNEL else [1, 3, 4]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", vulkan.FORMATS)
def test_image_to_tensor(device: vulkan.Device, format: str, way: str) -> None:
    for height, width in [(1, 1), (3, 5), (8, 6)]:
        with device.image(width, height, format) as image:
            texels = stored(format, height, width)
            device.copy(image, texels)
            values = colours(format, texels)
            if vulkan.FORMATS[format].srgb:
                values[:, :, :3] = decoded(values[:, :, :3])
            for channels in choices(format):
                found = read(device, image, channels, through_buffer=WAYS[way])
                # Hardware may decode with less than 32 bits: Vulkan asks for about 8 of them after decoding.
                atol = 2e-3 if vulkan.FORMATS[format].srgb else 1e-6
                np.testing.assert_allclose(found, picked(values, channels), rtol=1e-5, atol=atol)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", vulkan.FORMATS)
def test_tensor_to_image(device: vulkan.Device, format: str, way: str) -> None:
    shape = vulkan.FORMATS[format]
    for height, width in [(1, 1), (3, 5), (8, 6)]:
        for channels in choices(format):
            tensor = np.random.default_rng(1).normal(0.5, 0.7, (1, channels, height, width)).astype(np.float32)
            planes = tensor[0].transpose(1, 2, 0).astype(np.float64)
            wanted = np.ones((height, width, shape.channels))
            wanted[:, :, : max(channels, min(3, shape.channels))] = planes
            if shape.srgb:
                wanted[:, :, :3] = encoded(wanted[:, :, :3])
            with device.image(width, height, format) as image:
                found = write(device, image, tensor, through_buffer=WAYS[way])
            if shape.dtype == "uint8":
                np.testing.assert_allclose(colours(format, found), np.clip(wanted, 0, 1), atol=0.51 / 255)
            else:
                np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("format", vulkan.FORMATS)
def test_there_and_back_is_the_same(device: vulkan.Device, format: str) -> None:
    texels = stored(format, 7, 9)
    mean, std = ([0.485, 0.456, 0.406, 0.1][: vulkan.FORMATS[format].channels], [0.229, 0.224, 0.225, 0.5])
    std = std[: len(mean)]
    with device.image(9, 7, format) as image, device.image(9, 7, format) as other:
        device.copy(image, texels)
        tensor = read(device, image, len(mean), mean=mean, std=std)
        found = write(device, other, tensor, mean=mean, std=std)
    if texels.dtype == np.uint8:
        np.testing.assert_allclose(found.astype(int), texels, atol=1 if vulkan.FORMATS[format].srgb else 0)
    else:
        np.testing.assert_allclose(found, texels, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_srgb_values_of_the_standard(device: vulkan.Device, way: str) -> None:
    """All 256 codes, decoded, and encoded again to the same code."""
    codes = np.arange(256, dtype=np.uint8)
    texels = np.stack([codes, codes[::-1], codes, codes], axis=1).reshape(16, 16, 4)
    with device.image(16, 16, "rgba8") as image, device.image(16, 16, "rgba8") as other:
        device.copy(image, texels)
        tensor = read(device, image, 4, colour_space="srgb", through_buffer=WAYS[way])
        values = texels / 255.0
        values[:, :, :3] = decoded(values[:, :, :3])
        np.testing.assert_allclose(tensor, picked(values, 4), rtol=1e-4, atol=1e-6)
        found = write(device, other, tensor, colour_space="srgb", through_buffer=WAYS[way])
    np.testing.assert_array_equal(found, texels)
    # By hand: code 128 is 0.21586 linear, code 10 is on the straight part, 10 / 255 / 12.92.
    assert tensor[0, 0].ravel()[128] == pytest.approx(0.2158605, rel=1e-4)
    assert tensor[0, 0].ravel()[10] == pytest.approx(10 / 255 / 12.92, rel=1e-5)
    assert tensor[0, 3].ravel()[128] == pytest.approx(128 / 255, rel=1e-6)


def test_mean_and_std(device: vulkan.Device) -> None:
    texels = stored("rgba8", 4, 4)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    with device.image(4, 4, "rgba8") as image:
        device.copy(image, texels)
        found = read(device, image, 3, mean=mean, std=std)
    wanted = (texels[:, :, :3] / 255.0 - mean) / std
    np.testing.assert_allclose(found, picked(wanted, 3), rtol=1e-4, atol=1e-5)


def test_what_a_texel_cannot_hold_is_clamped(device: vulkan.Device) -> None:
    tensor = np.array([np.nan, -np.inf, np.inf, 2.0, -1.0, 1e30, 0.25, 70000.0], np.float32).reshape(1, 1, 2, 4)
    with device.image(4, 2, "r8") as byte, device.image(4, 2, "r16f") as half:
        assert write(device, byte, tensor).ravel().tolist() == [0, 0, 255, 255, 0, 255, 64, 255]
        top = 65504.0
        assert write(device, half, tensor).ravel().tolist() == [0, -top, top, 2, -1, top, 0.25, top]


def test_the_way_that_an_image_allows_is_taken(device: vulkan.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images for shaders alone, images for copies alone, and a device whose shaders cannot write all formats."""
    texels = {format: stored(format, 3, 5) for format in ("bgra8", "r8", "rgba8_srgb")}
    for format, wanted in texels.items():
        with device.image(5, 3, format, usage=COPIES) as image:
            device.copy(image, wanted)
            tensor = read(device, image, vulkan.FORMATS[format].channels, through_buffer=False)
            np.testing.assert_array_equal(write(device, image, tensor, through_buffer=False), wanted)
        with monkeypatch.context() as patch, device.image(5, 3, format) as image:
            patch.setattr(device, "enabled_features", frozenset())
            np.testing.assert_array_equal(write(device, image, tensor, through_buffer=False), wanted)
    with device.image(5, 3, "rgba8", usage=0x8 | 0x1) as image, device.image(5, 3, "rgba8", usage=0x4 | 0x2) as other:
        tensor = np.random.default_rng(0).random((1, 4, 3, 5), np.float32)
        found = write(device, image, tensor, through_buffer=True)
        device.copy(other, found)
        np.testing.assert_allclose(read(device, other, 4, through_buffer=True), tensor, atol=0.51 / 255)


def test_full_hd(device: vulkan.Device) -> None:
    texels = stored("bgra8", 1080, 1920)
    with device.image(1920, 1080, "bgra8") as image, device.image(1920, 1080, "rgba16f") as other:
        device.copy(image, texels)
        tensor = read(device, image, 3)
        np.testing.assert_allclose(tensor, picked(colours("bgra8", texels), 3), rtol=1e-5)
        found = write(device, other, tensor)
    np.testing.assert_allclose(found[:, :, :3], colours("bgra8", texels)[:, :, :3], atol=5e-4)
    assert (found[:, :, 3] == 1).all()


def test_layouts_are_given_back(device: vulkan.Device) -> None:
    texels = stored("rgba8", 4, 4)
    with device.image(4, 4, "rgba8") as image:
        device.copy(image, texels)
        commands = device.commands()
        for layout in (SHADER_READ_ONLY, TRANSFER_SRC):
            commands.begin()
            commands.transition(image, layout)
            commands.end()
            device.submit(commands).wait()
            for way in WAYS.values():
                tensor = read(device, image, 4, through_buffer=way)
                assert image.layout == layout
                np.testing.assert_array_equal(write(device, image, tensor, through_buffer=way), texels)
                assert image.layout == layout
        commands.close()
    with device.image(4, 4, "rgba8") as fresh:
        np.testing.assert_array_equal(write(device, fresh, tensor, through_buffer=False), texels)
        assert fresh.layout == 1


def test_one_recording_works_again_and_again(device: vulkan.Device) -> None:
    """Image to tensor to another image, recorded once, submitted for several pictures."""
    with device.image(5, 3, "rgba8") as source, device.image(5, 3, "bgra8") as to, device.buffer(256) as buffer:
        device.copy(source, stored("rgba8", 3, 5))
        commands = device.commands()
        commands.begin(once=False)
        record_image_to_tensor(device, commands, source, buffer, channels=4)
        record_tensor_to_image(device, commands, buffer, 0, to, channels=4)
        commands.end()
        for seed in range(3):
            texels = stored("rgba8", 3, 5, seed)
            device.copy(source, texels)
            device.submit(commands).wait()
            found = np.empty_like(texels)
            device.copy(found, to)
            np.testing.assert_array_equal(found[:, :, [2, 1, 0, 3]], texels)
        commands.close()


def test_texels_go_through_memory_that_is_given(device: vulkan.Device) -> None:
    """Tensor and texels side by side in one buffer, and none is made besides."""
    texels = stored("rgba16f", 3, 5)
    with device.image(5, 3, "rgba16f") as source, device.image(5, 3, "rgba16f") as to, device.buffer(1024) as buffer:
        assert texel_bytes(source) == 16 * 8
        device.copy(source, texels)
        with device.commands() as commands:
            before = device.live_objects["buffer"]
            commands.begin()
            for record, ends in [
                (record_image_to_tensor, (source, buffer, 512)),
                (record_tensor_to_image, (buffer, 512, to)),
            ]:
                record(device, commands, *ends, channels=4, through_buffer=True, texels=(buffer, 256))
            commands.end()
            assert device.live_objects["buffer"] == before
            device.submit(commands).wait()
            commands.begin()
            with pytest.raises(etarena.DeviceError, match="inside"):
                record_image_to_tensor(device, commands, source, buffer, through_buffer=True, texels=(buffer, 960))
            commands.forget()
        found = np.empty_like(texels)
        device.copy(found, to)
    np.testing.assert_array_equal(found, texels)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    format=st.sampled_from([name for name, shape in vulkan.FORMATS.items() if not shape.srgb]),
    way=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_size(shared: vulkan.Device, height: int, width: int, format: str, way: bool, seed: int) -> None:
    texels = stored(format, height, width, seed)
    channels = vulkan.FORMATS[format].channels
    with (
        shared.image(width, height, format) as image,
        shared.image(width, height, format) as other,
    ):
        shared.copy(image, texels)
        tensor = read(shared, image, channels, through_buffer=way)
        np.testing.assert_allclose(tensor, picked(colours(format, texels), channels), rtol=1e-5)
        np.testing.assert_array_equal(write(shared, other, tensor, through_buffer=way), texels)


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("foreign", "buffer", {}, "another Vulkan device"),
    ("fresh", "buffer", {}, "UNDEFINED"),
    ("image", "small", {}, "inside a buffer of 64 bytes"),
    ("image", "buffer", {"offset": 1000}, "offset|inside|multiple"),
    ("image", "buffer", {"channels": 2}, "channels=2"),
    ("single", "buffer", {"channels": 3}, "tensors of r8 have 1"),
    ("image", "buffer", {"colour_space": "hsv"}, "'linear' or 'srgb'"),
    ("image", "buffer", {"mean": [0.5]}, "3 finite numbers"),
    ("image", "buffer", {"std": [1, 0, 1]}, "std has a 0"),
    ("image", "buffer", {"std": [1, 1e-40, 1]}, "beyond the numbers"),
    ("image", "buffer", {"mean": [0, 0, np.nan]}, "3 finite numbers"),
    ("storage", "buffer", {}, "SAMPLED or TRANSFER_SRC is needed"),
    ("deep", "buffer", {}, "depth"),
]


@pytest.fixture
def things(device: vulkan.Device) -> Iterator[dict[str, Any]]:
    """Images and buffers that fit, and some that do not."""
    with vulkan.Device.create() as other, ExitStack() as stack:
        made = {
            "image": device.image(4, 4, "rgba8"),
            "fresh": device.image(4, 4, "rgba8"),
            "single": device.image(4, 4, "r8"),
            "storage": device.image(4, 4, "rgba8", usage=0x8),
            "sampled": device.image(4, 4, "rgba8", usage=0x4),
            "deep": device.image(4, 4, "rgba8", depth=2),
            "foreign": other.image(4, 4, "rgba8"),
            "buffer": device.buffer(1024),
            "small": device.buffer(64),
            "commands": device.commands(),
        }
        for thing in reversed(made.values()):
            stack.enter_context(thing)
        device.copy(made["image"], stored("rgba8", 4, 4))
        made["commands"].begin()
        made["commands"].transition(made["storage"], 1)
        yield made
        made["commands"].close()


@pytest.mark.parametrize(("image", "buffer", "more", "message"), REFUSED)
def test_images_that_cannot_be_read_are_refused(
    device: vulkan.Device, things: dict[str, Any], image: str, buffer: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(etarena.Error, match=message):
        record_image_to_tensor(device, things["commands"], things[image], things[buffer], **more)


def test_images_that_cannot_be_written_are_refused(device: vulkan.Device, things: dict[str, Any]) -> None:
    for image, message in [
        ("sampled", "TRANSFER_DST is needed to write"),
        ("foreign", "another Vulkan device"),
        ("deep", "depth"),
        ("single", "tensors of r8 have 1"),
    ]:
        with pytest.raises(etarena.Error, match=message):
            record_tensor_to_image(device, things["commands"], things["buffer"], 0, things[image])
    with pytest.raises(etarena.Error, match="inside a buffer of 64 bytes"):
        record_tensor_to_image(device, things["commands"], things["small"], 0, things["image"])
