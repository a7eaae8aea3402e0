"""Images that several delegates of a run read or write, in the arena and in memory of the device; against eager."""

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import etarena
from etarena import vulkan
from etarena.delegates.vulkan import image_arguments
from etarena.delegates.vulkan.images import record_image_to_tensor
from examples.vulkan_renderer.context import API, Context
from tests.helpers.vulkan_images import content, tensor, texels

DYNAMIC = torch.export.Dim.DYNAMIC
HOST_IMPORT = "VK_EXT_external_memory_host"
SIDES = {2: DYNAMIC, 3: DYNAMIC}


class Twice(torch.nn.Module):
    """The image is read before and after an operator that no shader knows: half of it comes out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sinh(torch.asinh(x * 0.25)) + x * 0.25


class Pair(torch.nn.Module):
    """Two images, both read before and after."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sinh(torch.asinh(x - y * 0.5)) + x * 0.25 * y


class Continued(torch.nn.Module):
    """A result that is read on."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = x * 0.25
        return a, torch.asinh(a * 2).sinh() + a * 64


class Branching(torch.nn.Module):
    """The image is read in a branch first, or behind it."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        z = torch.cond(n.sum() > 0, lambda a, b: torch.asinh(a * 2), lambda a, b: torch.asinh(b * 0.5), (x, y))
        return z.sinh() + x * y


class Whole(torch.nn.Module):
    """All of it has shaders: half of the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 0.25) * 2


def exported(model: torch.nn.Module, images: Sequence[str], **others: torch.Tensor) -> bytes:
    """With images of four channels as inputs and outputs, and other inputs on the CPU."""
    return etarena.export(
        model,
        (*(torch.rand(1, 4, 4, 6) for _ in images), *others.values()),
        dynamic_shapes={**dict.fromkeys(images, SIDES), **{name: {} for name in others}},
        partitioners=[etarena.VulkanPartitioner()],
        input_devices=dict.fromkeys(images, "vulkan"),
        output_devices="vulkan",
        copies="error",
    ).buffer


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {
        "twice": exported(Twice(), ["x"]),
        "pair": exported(Pair(), ["x", "y"]),
        "continued": exported(Continued(), ["x"]),
        "branching": exported(Branching(), ["x", "y"], n=torch.ones(3)),
        "whole": exported(Whole(), ["x"]),
    }


@pytest.fixture(scope="module", params=["arena", "device memory"])
def device(request: pytest.FixtureRequest) -> Iterator[vulkan.Device]:
    """One that works in the arena, and an application's without the extension for that."""
    with Context(validation=True) as context:
        extensions = [name for name in context.extensions if name != HOST_IMPORT or request.param == "arena"]
        with vulkan.Device.from_handles(
            instance=context.instance,
            physical_device=context.physical_device,
            device=context.device,
            queue=context.queue,
            queue_family_index=context.family,
            api_version=API,
            extensions=extensions,
            features=context.features,
        ) as found:
            assert (HOST_IMPORT in found.enabled_extensions) is (request.param == "arena")
            etarena.register_device_allocator(vulkan.VulkanAllocator(found))
            yield found
            etarena.unregister_device_allocator("vulkan")
            gc.collect()
        assert context.messages == []


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Handles of the images that were recorded to become tensors."""
    found: list[int] = []

    def recorded(device: Any, commands: Any, image: vulkan.Image, *args: Any, **more: Any) -> None:
        found.append(image.handle)
        record_image_to_tensor(device, commands, image, *args, **more)

    monkeypatch.setattr(image_arguments, "record_image_to_tensor", recorded)
    return found


def loaded(device: vulkan.Device, file: bytes) -> Any:
    return etarena.load(file, etarena.Arena(poison=True), vulkan=device).method()


def filled(device: vulkan.Device, seed: int, format: str = "rgba8", height: int = 4, width: int = 6) -> vulkan.Image:
    image = device.image(width, height, format)
    device.copy(image, texels(seed, format, height, width))
    return image


def colours(device: vulkan.Device, image: vulkan.Image) -> torch.Tensor:
    """What an image has, as the model's tensor."""
    found = content(device, image)
    numbers = found.astype(np.float32) / (255 if found.dtype == np.uint8 else 1)
    return torch.from_numpy(numbers).permute(2, 0, 1)[None]


def right(device: vulkan.Device, method: Any, model: torch.nn.Module, images: Sequence[vulkan.Image]) -> None:
    """A run equals eager."""
    inputs = [colours(device, image) for image in images]
    with device.image(images[0].width, images[0].height, "rgba32f") as to:
        method.execute([tensor(device, image) for image in images], [tensor(device, to)])
        torch.testing.assert_close(colours(device, to), model(*inputs), rtol=1e-5, atol=1e-6)


def test_an_image_that_two_delegates_read_is_converted_once(
    device: vulkan.Device, files: dict[str, bytes], conversions: list[int]
) -> None:
    method = loaded(device, files["twice"])
    assert len(method.section.delegates) == 2
    with filled(device, 0) as image, device.image(6, 4, "rgba8") as to:
        given, result = tensor(device, image), tensor(device, to)
        method.execute([given], [result])
        assert conversions == [image.handle]
        # What the operator between reads and writes has 4 channels of 4 x 6 texels.
        in_arena = HOST_IMPORT in device.enabled_extensions
        assert [copy.nbytes for copy in method.last_run.copies] == ([] if in_arena else [384, 384])
        for seed in (1, 2, 3):  # what was converted of the content before is of no use
            device.copy(image, texels(seed))
            method.execute([given], [result])
            np.testing.assert_array_equal(content(device, to), texels(seed) // 2)
        del given, result
    for height, width in [(1, 1), (33, 7), (5, 64), (4, 6), (33, 7)]:
        with filled(device, height, "rgba8", height, width) as image:
            right(device, method, Twice(), [image])


def test_images_take_turns_and_share_the_memory_of_their_tensors(
    device: vulkan.Device, files: dict[str, bytes]
) -> None:
    method = loaded(device, files["twice"])
    live = []
    for seed in range(4):
        with filled(device, seed, "rgba32f", 256, 256) as image:
            right(device, method, Twice(), [image])
            live.append(device.core.memory_live)
    assert live[3] == live[1]


def test_one_image_given_twice_and_two_images(
    device: vulkan.Device, files: dict[str, bytes], conversions: list[int]
) -> None:
    method = loaded(device, files["pair"])
    with filled(device, 0) as one, filled(device, 1) as two:
        right(device, method, Pair(), [one, one])
        assert conversions == [one.handle]
        right(device, method, Pair(), [one, two])
        right(device, method, Pair(), [two, one])
        right(device, method, Pair(), [two, two])
        device.copy(two, texels(2))
        right(device, method, Pair(), [one, two])
        right(device, method, Pair(), [two, two])


def test_one_image_in_two_colour_spaces_is_two_tensors(device: vulkan.Device, files: dict[str, bytes]) -> None:
    method = loaded(device, files["pair"])
    with filled(device, 0) as image, device.image(6, 4, "rgba32f") as to:
        linear, light = tensor(device, image), tensor(device, image, colour_space="srgb")
        x = colours(device, image)
        decoded = torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)  # IEC 61966-2-1
        decoded[:, 3] = x[:, 3]
        for given, expected in [((linear, light), (x, decoded)), ((light, linear), (decoded, x))]:
            method.execute(given, [tensor(device, to)])
            torch.testing.assert_close(colours(device, to), Pair()(*expected), rtol=1e-4, atol=1e-5)
        del linear, light, given


def test_runs_in_flight_convert_each_its_own_image(device: vulkan.Device, files: dict[str, bytes]) -> None:
    method = loaded(device, files["twice"])
    images = [filled(device, seed) for seed in range(3)]
    results = [device.image(6, 4, "rgba8") for _ in images]
    with device.timeline() as ready:
        for turn in (1, 2, 3):
            pending = [
                method.submit([tensor(device, image)], [tensor(device, to)], wait=[(ready, turn)], timeout=5.0)
                for image, to in zip(images, results, strict=True)
            ]
            for i, image in enumerate(images):
                device.copy(image, texels(10 * turn + i))
            device.submit_nothing(signal=[(ready, turn)])
            for i, one in enumerate(pending):
                one.wait(10.0)
                np.testing.assert_array_equal(content(device, results[i]), texels(10 * turn + i) // 2)
            del one, pending
        device.wait_idle()


def test_what_a_failed_run_converted_is_forgotten(device: vulkan.Device, files: dict[str, bytes]) -> None:
    """The first delegate has converted the image when the second one's work is refused."""
    method = loaded(device, files["twice"])
    with filled(device, 0) as image, device.image(6, 4, "rgba8") as to:
        method.execute([tensor(device, image)], [tensor(device, to)])
        for seed in (1, 2):
            device.copy(image, texels(10 + seed))
            device.core.inject("vkQueueSubmit", -1, 1)  # VK_ERROR_OUT_OF_HOST_MEMORY, after one that succeeds
            with pytest.raises(etarena.Error, match="OUT_OF_HOST_MEMORY"):
                method.execute([tensor(device, image)], [tensor(device, to)])
            device.copy(image, texels(seed))
            method.execute([tensor(device, image)], [tensor(device, to)])
            np.testing.assert_array_equal(content(device, to), texels(seed) // 2)


def test_a_result_is_read_on_with_all_digits(device: vulkan.Device, files: dict[str, bytes]) -> None:
    """Not as the 256 numbers that its image can hold."""
    method = loaded(device, files["continued"])
    with filled(device, 0) as image, device.image(6, 4, "rgba8") as first, device.image(6, 4, "rgba32f") as second:
        for seed in (1, 2):
            device.copy(image, texels(seed))
            a, b = Continued()(colours(device, image))
            method.execute([tensor(device, image)], [tensor(device, first), tensor(device, second)])
            torch.testing.assert_close(colours(device, first), a, rtol=0, atol=0.51 / 255)
            torch.testing.assert_close(colours(device, second), b, rtol=1e-5, atol=1e-5)


def test_whoever_comes_first_converts(device: vulkan.Device, files: dict[str, bytes]) -> None:
    method = loaded(device, files["branching"])
    with filled(device, 0) as x, filled(device, 1) as y, device.image(6, 4, "rgba32f") as to:
        for turn, sign in enumerate([1.0, -1.0, -1.0, 1.0, 1.0]):
            device.copy(x, texels(turn))
            n = torch.full((3,), sign)
            method.execute([tensor(device, x), tensor(device, y), n], [tensor(device, to)])
            expected = Branching()(colours(device, x), colours(device, y), n)
            torch.testing.assert_close(colours(device, to), expected, rtol=1e-5, atol=1e-6)


def test_images_that_are_written_are_nobody_elses(device: vulkan.Device, files: dict[str, bytes]) -> None:
    method, two = loaded(device, files["twice"]), loaded(device, files["continued"])
    with filled(device, 0) as image, device.image(6, 4, "rgba8") as to:
        for _ in range(2):
            with pytest.raises(etarena.InputError, match="shares memory with an input"):
                method.execute([tensor(device, image)], [tensor(device, image)])
            with pytest.raises(etarena.InputError, match="output 1 shares memory with one for another output"):
                two.execute([tensor(device, image)], [tensor(device, to), tensor(device, to)])
            method.execute([tensor(device, image)], [tensor(device, to)])
            np.testing.assert_array_equal(content(device, to), texels(0) // 2)


@pytest.mark.parametrize("format", ["rgba8", "bgra8", "rgba16f", "rgba32f"])
def test_nothing_goes_through_the_cpu(device: vulkan.Device, files: dict[str, bytes], format: str) -> None:
    method = loaded(device, files["whole"])
    for height, width in [(1, 1), (7, 9), (16, 8), (7, 9)]:
        with filled(device, height, format, height, width) as image, device.image(width, height, format) as to:
            for _ in range(2):
                with etarena.zero_copy():
                    method.execute([tensor(device, image)], [tensor(device, to)])
                assert method.last_run.copies == ()
                x = np.maximum(texels(height, format, height, width), 0)
                half = x // 2 if x.dtype == np.uint8 else x / 2
                np.testing.assert_allclose(content(device, to), half, rtol=2e-3, atol=1e-5)
