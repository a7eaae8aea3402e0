"""Buffers and images that the application destroys: between runs, under a handle that comes back, and too early."""

import gc
import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
import vulkan as vk

import etarena
from etarena import vulkan
from examples.vulkan_renderer.context import Context
from examples.vulkan_renderer.memory import VISIBLE, allocate, make_buffer, make_target

SHAPE = (1, 4, 4, 8)
GENERAL = 1  # VkImageLayout
BUFFER = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
IMAGE = vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT | vk.VK_IMAGE_USAGE_SAMPLED_BIT


class Doubled(torch.nn.Module):
    """Small numbers stay exact."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2


@pytest.fixture(scope="module", params=["layer", "none"])
def context(request: pytest.FixtureRequest) -> Iterator[Context]:
    """An application of its own, of which nothing may be said; and one without a layer, whose handles come back."""
    with Context(validation=request.param == "layer") as found:
        yield found
        assert found.messages == []


@pytest.fixture(scope="module")
def adopted(context: Context) -> Iterator[vulkan.Device]:
    """Its device."""
    with context.adopt() as found:
        etarena.register_device_allocator(vulkan.VulkanAllocator(found), replace=True)
        yield found
        gc.collect()


@pytest.fixture(scope="module")
def file() -> bytes:
    """With its input and output on the device."""
    return etarena.export(
        Doubled(),
        (torch.rand(SHAPE),),
        partitioners=[etarena.VulkanPartitioner()],
        input_devices={"x": "vulkan"},
        output_devices="vulkan",
        copies="error",
    ).buffer


def number(handle: Any) -> int:
    return int(vk.ffi.cast("uintptr_t", handle))


def test_a_handle_that_comes_back_is_another_buffer(
    request: pytest.FixtureRequest, context: Context, adopted: vulkan.Device, file: bytes
) -> None:
    """Drivers give the handle of what was destroyed to what is made next: commands for the former must be forgotten."""
    method = etarena.load(file, etarena.Arena(), vulkan=adopted).method()
    handles = []
    result = adopted.tensor(adopted.buffer(4 * math.prod(SHAPE)), "float32", SHAPE)
    taken = ExitStack()
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
        with ExitStack() as closing:
            source = make_buffer(context, closing, x.nbytes, BUFFER)
            source.mapped[:] = x.tobytes()
            handles.append(number(source.handle))
            given = etarena.ETensor.from_vulkan_buffer(adopted, source.handle, "float32", SHAPE, usage=BUFFER)
            for _ in range(2):
                method.execute([given], [result])
            np.testing.assert_array_equal(result.cpu().numpy(), 2 * np.maximum(x, 0))
            del given
            needs = vk.vkGetBufferMemoryRequirements(context.device, source.handle)
        # What the former buffer had goes to somebody else.
        taken.callback(vk.vkFreeMemory, context.device, allocate(context, needs, VISIBLE), None)
    taken.close()
    assert "layer" in request.node.name or len(set(handles)) < len(handles)


def test_a_handle_without_a_device_is_recorded_for_each_call(
    context: Context, adopted: vulkan.Device, file: bytes
) -> None:
    """Nobody can tell when such a handle ends."""
    method = etarena.load(file, etarena.Arena(), vulkan=adopted).method()
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
        with ExitStack() as closing:
            source = make_buffer(context, closing, x.nbytes, BUFFER)
            source.mapped[:] = x.tobytes()
            told = {"device": adopted.core.handle, "usage": BUFFER}
            given = etarena.ETensor.from_vulkan_buffer(number(source.handle), "float32", SHAPE, **told)
            (found,) = method.execute([given])
            np.testing.assert_array_equal(found.cpu().numpy(), 2 * np.maximum(x, 0))
            del given, found


def test_a_handle_that_comes_back_is_another_image(context: Context, adopted: vulkan.Device, file: bytes) -> None:
    method = etarena.load(file, etarena.Arena(), vulkan=adopted).method()
    for seed in range(3):
        texels = np.random.default_rng(seed).integers(0, 128, (4, 8, 4), dtype=np.uint8)
        with ExitStack() as closing, adopted.image(8, 4, "rgba8") as to, adopted.image(8, 4, "rgba8") as drawn:
            source = make_target(context, closing, (8, 4), vk.VK_FORMAT_R8G8B8A8_UNORM, IMAGE)
            what = {"width": 8, "height": 4, "format": "rgba8", "usage": IMAGE, "channels": 4}
            blank = etarena.ETensor.from_vulkan_image(adopted, source.handle, layout="undefined", **what)
            adopted.copy(drawn, texels)
            adopted.copy(blank, drawn)  # which ends in GENERAL
            given = etarena.ETensor.from_vulkan_image(adopted, source.handle, layout=GENERAL, **what)
            result = etarena.ETensor.from_vulkan_image(adopted, to, channels=4)
            for _ in range(2):
                method.execute([given], [result])
            found = np.empty_like(texels)
            adopted.copy(found, to)
            np.testing.assert_array_equal(found, 2 * texels)
            del blank, given, result


def test_what_a_model_was_given_cannot_be_closed_early(adopted: vulkan.Device, file: bytes) -> None:
    """Etarena's own say who has them; a recording alone does not keep them open."""
    method = etarena.load(file, etarena.Arena(), vulkan=adopted).method()
    x = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32)
    buffer = adopted.buffer(x.nbytes)
    adopted.copy(buffer, x)
    given = etarena.ETensor.from_vulkan_buffer(adopted, buffer, "float32", SHAPE)
    for _ in range(2):
        (found,) = method.execute([given])
    with pytest.raises(etarena.DeviceError, match="in use"):
        buffer.close()
    del given
    buffer.close()
    with pytest.raises(etarena.DeviceError, match="closed"):
        etarena.ETensor.from_vulkan_buffer(adopted, buffer, "float32", SHAPE)
    np.testing.assert_array_equal(found.cpu().numpy(), 2 * np.maximum(x, 0))
    again = adopted.buffer(x.nbytes)
    adopted.copy(again, -x)
    (found,) = method.execute([etarena.ETensor.from_vulkan_buffer(adopted, again, "float32", SHAPE)])
    np.testing.assert_array_equal(found.cpu().numpy(), 2 * np.maximum(-x, 0))
