"""The renderer of the examples: what it draws, on a device that etarena uses too."""

from collections.abc import Iterator

import numpy as np
import pytest
import vulkan as vk

import etarena
from etarena import ETensor
from etarena.delegates.vulkan.images import record_image_to_tensor, record_tensor_to_image
from examples.vulkan_renderer.context import Context
from examples.vulkan_renderer.pictures import read
from examples.vulkan_renderer.renderer import FORMATS, Picture, Renderer
from examples.vulkan_renderer.scene import PERIOD

SIZE = (160, 90)
GENERAL = 1  # VK_IMAGE_LAYOUT_GENERAL


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    """A device for all tests, checked by the validation layer."""
    with Context(validation=True) as context:
        yield context
    assert context.messages == []


def test_the_scene_moves_and_comes_back(context: Context) -> None:
    with Renderer(context, *SIZE) as renderer:
        first, half, again = (read(context, renderer.draw(time)) for time in (0.0, PERIOD / 2, PERIOD))
    assert first.shape == (90, 160, 3)
    assert np.abs(first.astype(int) - half).mean() > 5
    np.testing.assert_allclose(first.astype(int), again, atol=2)
    assert first.std() > 20


def test_floats_are_the_linear_light_of_bytes(context: Context) -> None:
    pictures = []
    for format in FORMATS:
        with Renderer(context, *SIZE, format) as renderer:
            pictures.append(read(context, renderer.draw(1.0)).astype(int))
    # Blending over reflections is done on what is stored: encoded in one, linear in the other. The sky is not blended.
    np.testing.assert_allclose(pictures[0][:20, :40], pictures[1][:20, :40], atol=2)


def test_near_things_hide_far_ones(context: Context) -> None:
    """The golden knot stands before the screen, which is white here."""
    with Renderer(context, *SIZE, samples=4) as renderer, context.adopt() as device:
        with device.image(4, 4, "rgba8") as white:
            device.copy(white, b"\xff" * 64)
            picture = Picture(white.handle, 4, 4, layout=GENERAL)
            shown = read(context, renderer.draw(0.0, picture)).astype(int)
            black = read(context, renderer.draw(0.0)).astype(int)
        changed = np.abs(shown - black).sum(axis=2) > 60
        # The screen is that of the largest rectangle: its middle is covered by the knot, its upper corners are not.
        rows, columns = np.nonzero(changed[:45])
        top, left, right = rows.min(), columns.min(), columns.max()
        assert changed[top + 4, left + 6]
        assert changed[top + 4, right - 6]
        assert not changed[30:45, 75:86].all()
        knot = shown[35:45, 70:90].reshape(-1, 3)
        assert (knot[:, 0] > knot[:, 2] + 20).any()  # gold


def test_the_screen_shows_what_etarena_wrote(context: Context) -> None:
    red = np.zeros((8, 8, 4), np.uint8)
    red[:, :, 0] = red[:, :, 3] = 255
    with Renderer(context, *SIZE) as renderer, context.adopt() as device, device.image(8, 8, "rgba8") as image:
        device.copy(image, red)
        picture = Picture(image.handle, 8, 8, layout=GENERAL)
        shown = read(context, renderer.draw(0.0, picture)).astype(int)
        is_red = (shown[:, :, 0] > 200) & (shown[:, :, 1:].max(axis=2) < 20)
        assert is_red.sum() > 300


def test_frames_wait_for_semaphores_of_etarena(context: Context) -> None:
    with Renderer(context, *SIZE, frames=2) as renderer, context.adopt() as device, device.timeline() as ready:
        semaphore = vk.ffi.cast("VkSemaphore", ready.handle)
        frame = renderer.draw(0.0, wait=[(semaphore, 3)])
        with pytest.raises(vk.VkTimeout):
            renderer.wait(frame.number, seconds=0.05)
        ready.signal(3)
        renderer.wait(frame.number)
        with device.adopt_semaphore(frame.done[0], timeline=True) as done:
            assert done.value == frame.done[1]


def test_many_frames_in_flight_are_those_drawn_one_by_one(context: Context) -> None:
    times = [0.0, 0.5, 1.0, 1.5]
    with Renderer(context, *SIZE, frames=4) as many, Renderer(context, *SIZE, frames=1) as one:
        frames = [many.draw(time) for time in times]
        together = [read(context, frame) for frame in frames]
        alone = [read(context, one.draw(time)) for time in times]
    np.testing.assert_array_equal(together, alone)


def test_random_shadows_differ_from_frame_to_frame(context: Context) -> None:
    with Renderer(context, *SIZE) as renderer:
        first, second = (read(context, renderer.draw(0.0, noisy=True)).astype(int) for _ in range(2))
    changed = np.abs(first - second).max(axis=2) > 10
    assert 0.001 < changed.mean() < 0.2


def test_what_cannot_be_drawn_is_refused(context: Context) -> None:
    for size, more in [((0, 4), {}), ((4, 4), {"format": "r8"}), ((4, 4), {"frames": 0}), ((4, 4), {"samples": 3})]:
        with pytest.raises(ValueError, match="sizes are at least 1"):
            Renderer(context, *size, **more)
    with Renderer(context, 4, 4, frames=1) as renderer:
        frame = renderer.draw(0.0)
        with pytest.raises(ValueError, match="use more frames"):
            renderer.draw(0.0, frame.picture())


def test_a_frame_goes_through_a_tensor_onto_the_screen(context: Context) -> None:
    """Frame, tensor, image and next frame on the device, ordered by semaphores; the tensor has the inverse colours."""
    inverse = np.empty((SIZE[1], SIZE[0], 4), np.uint8)
    with (
        Renderer(context, *SIZE) as renderer,
        context.adopt() as device,
        device.buffer(4 * 3 * SIZE[0] * SIZE[1]) as buffer,
        device.image(*SIZE, "rgba8") as result,
        device.timeline() as ready,
        device.commands() as commands,
    ):
        frame = renderer.draw(0.0)
        with etarena.zero_copy(), device.adopt_semaphore(frame.done[0], timeline=True) as drawn:
            seen = ETensor.from_vulkan_image(
                device, frame.image, frame.width, frame.height, frame.format, layout=frame.layout, usage=frame.usage
            )
            commands.begin()
            source = device.transfers.place(seen)
            record_image_to_tensor(device, commands, source, buffer, mean=[1] * 3, std=[-1] * 3)
            record_tensor_to_image(device, commands, buffer, 0, result)
            commands.end()
            work = device.submit(commands, wait=[(drawn, frame.done[1])], signal=[(ready, 1)])
            picture = Picture(result.handle, *SIZE, layout=GENERAL)
            shown = renderer.draw(0.0, picture, wait=[(vk.ffi.cast("VkSemaphore", ready.handle), 1)])
            first, second = read(context, frame), read(context, shown)
            work.wait()
        device.copy(inverse, result)
        commands.forget()
        del seen, source, work
    np.testing.assert_array_equal(inverse[:, :, :3], 255 - first)
    # Nothing but the screen and its reflection has changed.
    changed = np.abs(first.astype(int) - second).max(axis=2) > 40
    assert 0.05 < changed.mean() < 0.3
    assert not changed[:, :20].any()
