"""Frames as files: the only place where the renderer's texels reach the CPU."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import vulkan as vk
from PIL import Image

from .memory import make_buffer, make_timeline, move_image

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from .context import Context
    from .renderer import Frame

__all__ = ["read", "save_gif", "save_png"]


def read(context: Context, frame: Frame) -> NDArray[np.uint8]:
    """Wait for a frame and copy it to the CPU: (height, width, 3), sRGB-encoded."""
    texel_bytes = 4 if frame.encoded else 8
    nbytes = frame.width * frame.height * texel_bytes
    with ExitStack() as closing:
        buffer = make_buffer(context, closing, nbytes, vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT)
        finished = make_timeline(context, closing)
        info = vk.VkCommandPoolCreateInfo(flags=1, queueFamilyIndex=context.family)
        pool = vk.vkCreateCommandPool(context.device, info, None)
        closing.callback(vk.vkDestroyCommandPool, context.device, pool, None)
        info = vk.VkCommandBufferAllocateInfo(commandPool=pool, level=0, commandBufferCount=1)
        commands = vk.vkAllocateCommandBuffers(context.device, info)[0]
        record_copy(commands, frame, buffer.handle)
        context.submit(commands, [frame.done], [(finished, 1)])
        done = vk.VkSemaphoreWaitInfo(pSemaphores=[finished], pValues=[1])
        vk.vkWaitSemaphores(context.device, done, 60_000_000_000)
        data = bytes(buffer.mapped)
    shape = (frame.height, frame.width, 4)
    if frame.encoded:
        return np.frombuffer(data, np.uint8).reshape(shape)[:, :, :3]
    linear = np.frombuffer(data, np.float16).reshape(shape)[:, :, :3].astype(np.float32).clip(0, 1)
    encoded = np.where(linear > 0.0031308, 1.055 * linear ** (1 / 2.4) - 0.055, 12.92 * linear)
    return np.rint(255 * encoded).astype(np.uint8)


def record_copy(commands: Any, frame: Frame, buffer: Any) -> None:
    """Copy a frame's texels to a buffer, and give the frame its layout back."""
    transfer = vk.VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL
    region = vk.VkBufferImageCopy(
        imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
        imageExtent=vk.VkExtent3D(frame.width, frame.height, 1),
    )
    visible = vk.VkMemoryBarrier(
        srcAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT
    )
    vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo(flags=1))
    move_image(commands, frame.image, frame.layout, transfer)
    vk.vkCmdCopyImageToBuffer(commands, frame.image, transfer, buffer, 1, [region])
    move_image(commands, frame.image, transfer, frame.layout)
    vk.vkCmdPipelineBarrier(commands, 0x1000, 0x4000, 0, 1, [visible], 0, None, 0, None)  # transfer to host
    vk.vkEndCommandBuffer(commands)


def save_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """Write a picture (height, width, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path, optimize=True)


def save_gif(path: Path, pictures: list[NDArray[np.uint8]], seconds: float) -> None:
    """Write pictures as a moving one that lasts so many seconds and begins again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = [Image.fromarray(picture).quantize(256, method=Image.Quantize.MEDIANCUT) for picture in pictures]
    duration = max(20, round(1000 * seconds / len(pictures)))
    first.save(path, save_all=True, append_images=others, duration=duration, loop=0)
