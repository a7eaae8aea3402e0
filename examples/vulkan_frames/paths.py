"""Two ways from a frame to a painted one that the renderer can show: on the device, and through the CPU."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
import vulkan as vk

import etarena
from examples.vulkan_renderer.memory import make_buffer, make_target, make_timeline, move_image
from examples.vulkan_renderer.pictures import record_copy
from examples.vulkan_renderer.renderer import SEEN, USAGE, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.vulkan_renderer.context import Context
    from examples.vulkan_renderer.renderer import Renderer

__all__ = ["OnDevice", "Painted", "Path", "ThroughCpu"]

GENERAL, TRANSFER_DST = vk.VK_IMAGE_LAYOUT_GENERAL, vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
SECONDS = 60.0  # to wait at most


@dataclass(frozen=True)
class Painted:
    """A frame that is being painted.

    Attributes
    ----------
    frame
        What will be there.
    finish
        Returns once the queue has all work for it: what is given to the queue now can wait for ``frame.done``.
    """

    frame: Frame
    finish: Callable[[], Any]


class Path(Protocol):
    """A way from frames to painted frames, as many at a time as it was made for."""

    def start(self, frame: Frame) -> Painted:
        """Begin with a frame, maybe before it is drawn. The painted one is overwritten in turn."""

    def close(self) -> None:
        """Give everything back."""


class OnDevice:
    """Images of the device go into the model and come out of it; the CPU sees no texel.

    Parameters
    ----------
    context, renderer
        The application.
    model
        Exported with input and output on Vulkan.
    count
        Painted frames that there are at a time.
    """

    def __init__(self, context: Context, renderer: Renderer, model: bytes, count: int) -> None:
        self._size = renderer.width, renderer.height
        self._closing = ExitStack()
        self._device = self._closing.enter_context(context.adopt())
        allocator = etarena.register_device_allocator(etarena.vulkan.VulkanAllocator(self._device))
        self._closing.callback(etarena.unregister_device_allocator, allocator)
        self._method = etarena.load(model, vulkan=self._device).method()
        self._ready = self._closing.enter_context(self._device.timeline())
        self._images = [self._closing.enter_context(self._device.image(*self._size, "rgba8")) for _ in range(count)]
        self._results = [etarena.ETensor.from_vulkan_image(self._device, image) for image in self._images]
        self._inputs: dict[int, etarena.ETensor] = {}
        self._drawn: etarena.vulkan.Semaphore | None = None
        self._number = 0

    def start(self, frame: Frame) -> Painted:
        """Let the model run in the background when the frame is drawn."""
        if self._drawn is None:
            self._drawn = self._closing.enter_context(self._device.adopt_semaphore(frame.done[0], timeline=True))
        place = self._number % len(self._images)
        self._number += 1
        work = self._method.submit(  # type: ignore[union-attr]
            [self._tensor(frame)],
            [self._results[place]],
            wait=[(self._drawn, frame.done[1])],
            signal=[(self._ready, self._number)],
            timeout=SECONDS,
        )
        done = vk.ffi.cast("VkSemaphore", self._ready.handle), self._number
        image = vk.ffi.cast("VkImage", self._images[place].handle)
        return Painted(Frame(image, *self._size, frame.format, self._number, done, True, GENERAL), work.wait)

    def copies(self) -> tuple[Any, ...]:
        """What the last run copied."""
        assert self._method.last_run is not None
        return self._method.last_run.copies

    def close(self) -> None:
        """Give everything back."""
        self._inputs.clear()
        self._results.clear()
        del self._method
        gc.collect()
        self._device.wait_idle(SECONDS)
        self._closing.close()

    def _tensor(self, frame: Frame) -> etarena.ETensor:
        """The frame's image as a tensor, made once for each image."""
        number = int(vk.ffi.cast("uintptr_t", frame.image))
        if number not in self._inputs:
            self._inputs[number] = etarena.ETensor.from_vulkan_image(
                self._device, number, *self._size, frame.format, layout=frame.layout, usage=frame.usage
            )
        return self._inputs[number]


class ThroughCpu:
    """What an application does whose runtime knows no images: read back, convert, run on the CPU's tensors, upload.

    Parameters
    ----------
    context, renderer
        The application.
    model
        Exported with input and output on the CPU.
    count
        Painted frames that there are at a time.
    """

    def __init__(self, context: Context, renderer: Renderer, model: bytes, count: int) -> None:
        self._context, self._closing = context, ExitStack()
        self._size = width, height = renderer.width, renderer.height
        self._method = etarena.load(model).method()
        usage = vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
        self._buffer = make_buffer(context, self._closing, width * height * 4, usage)
        self._texels = torch.frombuffer(self._buffer.mapped, dtype=torch.uint8).view(height, width, 4)
        self._x = torch.empty(1, 3, height, width)
        self._done = make_timeline(context, self._closing)
        pool = vk.vkCreateCommandPool(
            context.device,
            vk.VkCommandPoolCreateInfo(
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, queueFamilyIndex=context.family
            ),
            None,
        )
        self._closing.callback(vk.vkDestroyCommandPool, context.device, pool, None)
        info = vk.VkCommandBufferAllocateInfo(commandPool=pool, level=0, commandBufferCount=2)
        buffers = vk.vkAllocateCommandBuffers(context.device, info)
        self._download, self._upload = buffers[0], buffers[1]
        format = renderer.format
        self._targets = [make_target(context, self._closing, self._size, format, USAGE) for _ in range(count)]
        self._layouts = [0] * count
        self._number = self._value = 0

    def start(self, frame: Frame) -> Painted:
        """Do all of it now."""
        record_copy(self._download, frame, self._buffer.handle)
        self._run(self._download, [frame.done])
        torch.div(self._texels[:, :, :3].permute(2, 0, 1), 255, out=self._x[0])
        (painted,) = self._method.execute([self._x])
        self._texels[:, :, :3] = painted[0].mul_(255).round_().permute(1, 2, 0)
        self._texels[:, :, 3] = 255
        place = self._number % len(self._targets)
        self._number += 1
        image = self._targets[place].handle
        self._record_upload(image, self._layouts[place])
        self._layouts[place] = SEEN
        self._run(self._upload, [])
        done = self._done, self._value
        return Painted(Frame(image, *self._size, frame.format, self._number, done, True), lambda: None)

    def close(self) -> None:
        """Give everything back."""
        del self._texels, self._method
        self._closing.close()

    def _run(self, commands: Any, wait: list[tuple[Any, int]]) -> None:
        self._value += 1
        self._context.submit(commands, wait, [(self._done, self._value)])
        info = vk.VkSemaphoreWaitInfo(pSemaphores=[self._done], pValues=[self._value])
        vk.vkWaitSemaphores(self._context.device, info, int(SECONDS * 1e9))

    def _record_upload(self, image: Any, layout: int) -> None:
        region = vk.VkBufferImageCopy(
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageExtent=vk.VkExtent3D(*self._size, 1),
        )
        vk.vkBeginCommandBuffer(self._upload, vk.VkCommandBufferBeginInfo(flags=1))
        move_image(self._upload, image, layout, TRANSFER_DST)
        vk.vkCmdCopyBufferToImage(self._upload, self._buffer.handle, image, TRANSFER_DST, 1, [region])
        move_image(self._upload, image, TRANSFER_DST, SEEN)
        vk.vkEndCommandBuffer(self._upload)
