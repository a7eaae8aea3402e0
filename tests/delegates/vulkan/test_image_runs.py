"""Images into models and out of them, ordered by semaphores, with several runs at a time; compared with NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import etarena
from etarena import vulkan
from examples.vulkan_renderer.context import Context
from tests.helpers.vulkan_images import content, tensor, texels

DYNAMIC = torch.export.Dim.DYNAMIC
FORMATS = [name for name in vulkan.FORMATS if not vulkan.FORMATS[name].srgb]
SHADER_READ_ONLY, GENERAL = 5, 1  # VkImageLayout
SAMPLED, STORAGE = 0x4, 0x8  # VkImageUsageFlagBits


class Halved(torch.nn.Module):
    """Half of what comes in, in two parts for Vulkan with one between that no shader knows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sinh(torch.asinh(x * 0.25)) * 2


def exported(channels: int) -> bytes:
    return etarena.export(
        Halved(),
        (torch.rand(1, channels, 4, 6),),
        dynamic_shapes={"x": {2: DYNAMIC, 3: DYNAMIC}},
        partitioners=[etarena.VulkanPartitioner()],
        input_devices={"x": "vulkan"},
        output_devices="vulkan",
        copies="error",
    ).buffer


@pytest.fixture(scope="module")
def files() -> dict[int, bytes]:
    return {channels: exported(channels) for channels in (1, 4)}


@pytest.fixture
def method(device: vulkan.Device, files: dict[int, bytes]) -> Any:
    return etarena.load(files[4], etarena.Arena(), vulkan=device).method()


@pytest.fixture
def images(device: vulkan.Device) -> Iterator[list[vulkan.Image]]:
    """Five of 6 x 4 texels, with different colours."""
    made = [device.image(6, 4, "rgba8") for _ in range(5)]
    for seed, image in enumerate(made):
        device.copy(image, texels(seed))
    yield made
    device.wait_idle()


def works(device: vulkan.Device, method: Any, images: list[vulkan.Image]) -> None:
    """One more run gives what it should."""
    device.copy(images[0], texels(9))
    method.execute([tensor(device, images[0])], [tensor(device, images[1])], timeout=10.0)
    np.testing.assert_array_equal(content(device, images[1]), texels(9) // 2)


@pytest.mark.parametrize("format", FORMATS)
def test_images_of_every_format_go_in_and_out(device: vulkan.Device, files: dict[int, bytes], format: str) -> None:
    channels = vulkan.FORMATS[format].channels
    method = etarena.load(files[channels], etarena.Arena(poison=True), vulkan=device).method()
    for height, width in [(1, 1), (5, 7), (16, 8), (5, 7)]:
        with device.image(width, height, format) as source, device.image(width, height, format) as to:
            given = texels(height, format, height, width)
            device.copy(source, given)
            with etarena.zero_copy():
                method.execute([tensor(device, source, channels)], [tensor(device, to, channels)])
            assert method.last_run.copies == ()
            found = content(device, to)
            if given.dtype == np.uint8:
                np.testing.assert_array_equal(found, given // 2)
            else:
                np.testing.assert_allclose(found, given / 2, rtol=2e-3, atol=1e-5)
        del source, to


def test_an_image_that_changes_its_layout_between_runs(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    source, to = images[:2]
    given, result = tensor(device, source), tensor(device, to)
    for layout in (GENERAL, SHADER_READ_ONLY, GENERAL):
        with device.commands() as commands:
            for image in (source, to):
                if image.layout != layout:
                    commands.begin()
                    commands.transition(image, layout)
                    commands.end()
                    device.submit(commands).wait()
        method.execute([given], [result])
        assert (source.layout, to.layout) == (layout, layout)
        np.testing.assert_array_equal(content(device, to), texels(0) // 2)


def test_a_run_waits_for_a_timeline_and_signals_one(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    with device.timeline() as drawn, device.timeline(3) as painted:
        given, result = tensor(device, images[0]), tensor(device, images[1])
        pending = method.submit([given], [result], wait=[(drawn, 5)], signal=[(painted, 7)])
        with pytest.raises(TimeoutError):
            pending.wait(0.05)
        assert not pending.done()
        assert painted.value == 3
        drawn.signal(5)
        pending.wait(10.0)
        painted.wait(7)
        np.testing.assert_array_equal(content(device, images[1]), texels(0) // 2)
        device.wait_idle()


def test_binary_semaphores_order_copies_and_runs(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    with device.semaphore() as filled, device.semaphore() as done:
        source, to, last = images[:3]
        device.copy(source, images[4], signal=[filled], blocking=False)
        method.execute([tensor(device, source)], [tensor(device, to)], wait=[filled], signal=[done], timeout=10.0)
        device.copy(last, to, wait=[done])
        np.testing.assert_array_equal(content(device, last), texels(4) // 2)
        device.wait_idle()


def test_several_runs_in_flight_each_work_on_their_own_images(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    """Each waits for its own value and feeds the next one: halves of halves."""
    with device.timeline() as ready:
        tensors = [tensor(device, image) for image in images]
        with etarena.zero_copy():
            pending = [
                method.submit([tensors[i]], [tensors[i + 1]], wait=[(ready, i + 1)], signal=[(ready, i + 2)])
                for i in range(4)
            ]
        ready.signal(1)
        for one in pending:
            one.wait(10.0)
        ready.wait(5)
        found = content(device, images[4]) / 255
        np.testing.assert_allclose(found, texels(0) / 255 / 16, atol=1 / 255)
        device.wait_idle()


def test_what_is_never_signalled_ends_in_a_timeout(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    given, result = tensor(device, images[0]), tensor(device, images[1])
    with device.timeline() as never, device.timeline() as after:
        for _ in range(2):
            with pytest.raises(vulkan.WaitTimeoutError, match="did not reach 1"):
                method.execute([given], [result], wait=[(never, 1)], signal=[(after, 1)], timeout=0.02)
            works(device, method, images)
        assert after.value == 0
        pending = method.submit([given], [result], wait=[(never, 1)], timeout=0.02)
        with pytest.raises(vulkan.WaitTimeoutError):
            pending.wait(10.0)
        works(device, method, images)


def test_semaphores_that_cannot_be_used_are_refused(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    given, result = [tensor(device, images[0])], [tensor(device, images[1])]
    closed = device.timeline()
    closed.close()
    with vulkan.Device.create() as other, other.timeline() as foreign, device.timeline() as timeline:
        for bad, message in [
            ((closed, 1), "closed"),
            ((foreign, 1), "another Vulkan device"),
            (timeline, "needs the value"),
            (7, "expected a Semaphore"),
        ]:
            for name in ("wait", "signal"):
                with pytest.raises(etarena.Error, match=message):
                    method.execute(given, result, **{name: [bad]})
    works(device, method, images)


def test_images_that_do_not_do_are_refused(device: vulkan.Device, method: Any, images: list[vulkan.Image]) -> None:
    source, to = images[:2]
    storage = device.image(6, 4, "rgba8", usage=STORAGE)
    sampled = device.image(6, 4, "rgba8", usage=SAMPLED)
    fresh, small = device.image(6, 4, "rgba8"), device.image(3, 4, "rgba8")
    other = vulkan.Device.create()
    stranger = tensor(other, other.image(6, 4, "rgba8"))
    for given, result, message in [
        (tensor(device, fresh), tensor(device, to), "UNDEFINED"),
        (tensor(device, source), tensor(device, sampled), "TRANSFER_DST is needed to write"),
        (tensor(device, source), tensor(device, small), "has shape"),
        (tensor(device, source), tensor(device, to, readonly=True), "read-only"),
        (stranger, tensor(device, to), "belongs to VkDevice"),
        (tensor(device, source), stranger, "belongs to VkDevice"),
        (tensor(device, source, 3), tensor(device, to), "is 3, but must be 4"),
    ]:
        with pytest.raises(etarena.Error, match=message):
            method.execute([given], [result])
        works(device, method, images)
    with device.commands() as commands:
        commands.begin()
        commands.transition(storage, GENERAL)
        commands.end()
        device.submit(commands).wait()
    with pytest.raises(etarena.Error, match="SAMPLED or TRANSFER_SRC"):
        method.execute([tensor(device, storage)], [tensor(device, to)])
    works(device, method, images)


def test_what_a_tensor_has_cannot_be_closed_and_closed_images_give_no_tensor(
    device: vulkan.Device, method: Any, images: list[vulkan.Image]
) -> None:
    image = device.image(6, 4, "rgba8")
    held = tensor(device, image)
    with pytest.raises(etarena.DeviceError, match="in use: 1 x a tensor of it"):
        image.close()
    method.execute([tensor(device, images[0])], [held])
    np.testing.assert_array_equal(content(device, image), texels(0) // 2)
    del held
    method.trim()
    image_handle = image.handle
    assert image_handle
    works(device, method, images)


def test_a_device_that_ran_models_can_be_closed(files: dict[int, bytes]) -> None:
    """Its delegates had parts of an arena imported, and the arena lives on."""
    arena = etarena.Arena()
    for _ in range(2):
        device = vulkan.Device.create(validation=True)
        allocator = vulkan.VulkanAllocator(device)
        etarena.register_device_allocator(allocator, replace=True)
        method = etarena.load(files[4], arena, vulkan=device).method()
        with device.image(6, 4, "rgba8") as source, device.image(6, 4, "rgba8") as to:
            device.copy(source, texels(1))
            method.execute([tensor(device, source)], [tensor(device, to)])
            np.testing.assert_array_equal(content(device, to), texels(1) // 2)
            del method
        device.close()
        assert device.messages == []
    assert arena.stats.activation_committed > 0


def test_a_device_without_timeline_semaphores_names_the_feature() -> None:
    """The application enabled nothing: no import of the arena, no timelines."""
    with Context() as context:
        device = vulkan.Device.from_handles(
            instance=context.instance,
            physical_device=context.physical_device,
            device=context.device,
            queue=context.queue,
            queue_family_index=context.family,
            api_version=(1, 2),
        )
        with pytest.raises(vulkan.MissingFeatureError, match="timelineSemaphore"):
            device.timeline()
        device.close()


def decoded(codes: np.ndarray) -> np.ndarray:
    """Linear light of sRGB codes (IEC 61966-2-1)."""
    x = codes / 255
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def encoded(light: np.ndarray) -> np.ndarray:
    """SRGB codes, not rounded, of linear light."""
    return 255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("format", [name for name in vulkan.FORMATS if vulkan.FORMATS[name].srgb])
def test_srgb_images_are_linear_light_in_a_model(device: vulkan.Device, method: Any, format: str) -> None:
    """Half the light is no half of the code; alpha is a plain number."""
    for height, width in [(1, 1), (7, 9), (4, 8)]:
        with device.image(width, height, format) as source, device.image(width, height, format) as to:
            given = texels(height, format, height, width)
            device.copy(source, given)
            with etarena.zero_copy():
                method.execute([tensor(device, source)], [tensor(device, to)])
            found = content(device, to).astype(np.float64)
            np.testing.assert_allclose(found[..., :3], encoded(decoded(given[..., :3]) / 2), atol=0.51)
            np.testing.assert_array_equal(found[..., 3], given[..., 3] // 2)
        del source, to


def test_images_alone_need_no_allocator(
    device: vulkan.Device, files: dict[int, bytes], images: list[vulkan.Image]
) -> None:
    """Only results that the caller gives no memory for come from the device's allocator."""
    etarena.unregister_device_allocator("vulkan")
    try:
        method = etarena.load(files[4], etarena.Arena(), vulkan=device).method()
        works(device, method, images)
        given = tensor(device, images[0])
        with pytest.raises(etarena.DeviceError, match="no allocator is registered for vulkan"):
            method.execute([given])
        method.trim()
        works(device, method, images)
    finally:
        etarena.register_device_allocator(vulkan.VulkanAllocator(device))
    assert method.execute([given])[0].shape == (1, 4, 4, 6)
