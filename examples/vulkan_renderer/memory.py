"""Buffers and images with memory of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import vulkan as vk

if TYPE_CHECKING:
    from contextlib import ExitStack

    from .context import Context

__all__ = ["HostBuffer", "Target", "make_buffer", "make_target", "make_timeline", "make_view", "move_image"]

VISIBLE = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
DEPTH = vk.VK_FORMAT_D32_SFLOAT


@dataclass(frozen=True)
class HostBuffer:
    """A VkBuffer that the CPU sees as `mapped`."""

    handle: Any
    mapped: Any
    nbytes: int


@dataclass(frozen=True)
class Target:
    """A VkImage with a view."""

    handle: Any
    view: Any


def allocate(context: Context, needs: Any, wanted: int) -> Any:
    """Memory for what a VkMemoryRequirements asks, of a type with the wanted properties."""
    for index, properties in enumerate(context.memory_types):
        if needs.memoryTypeBits >> index & 1 and properties & wanted == wanted:
            info = vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=index)
            return vk.vkAllocateMemory(context.device, info, None)
    raise RuntimeError("the Vulkan device has no memory of the kind that is needed")


def make_buffer(context: Context, closing: ExitStack, nbytes: int, usage: int) -> HostBuffer:
    """A buffer that the CPU writes and reads."""
    handle = vk.vkCreateBuffer(context.device, vk.VkBufferCreateInfo(size=nbytes, usage=usage), None)
    memory = allocate(context, vk.vkGetBufferMemoryRequirements(context.device, handle), VISIBLE)
    closing.callback(vk.vkFreeMemory, context.device, memory, None)  # after what lies in it
    closing.callback(vk.vkDestroyBuffer, context.device, handle, None)
    vk.vkBindBufferMemory(context.device, handle, memory, 0)
    return HostBuffer(handle, vk.vkMapMemory(context.device, memory, 0, nbytes, 0), nbytes)


def make_target(
    context: Context, closing: ExitStack, size: tuple[int, int], format: int, usage: int, samples: int = 1
) -> Target:
    """An image to draw into, (width, height) texels."""
    info = vk.VkImageCreateInfo(
        imageType=vk.VK_IMAGE_TYPE_2D,
        format=format,
        extent=vk.VkExtent3D(*size, 1),
        mipLevels=1,
        arrayLayers=1,
        samples=samples,
        tiling=vk.VK_IMAGE_TILING_OPTIMAL,
        usage=usage,
        initialLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
    )
    handle = vk.vkCreateImage(context.device, info, None)
    memory = allocate(context, vk.vkGetImageMemoryRequirements(context.device, handle), 0)
    closing.callback(vk.vkFreeMemory, context.device, memory, None)
    closing.callback(vk.vkDestroyImage, context.device, handle, None)
    vk.vkBindImageMemory(context.device, handle, memory, 0)
    return Target(handle, make_view(context, closing, handle, format))


def make_view(context: Context, closing: ExitStack, image: Any, format: int) -> Any:
    """A view of all of an image with one level and one layer."""
    aspect = vk.VK_IMAGE_ASPECT_DEPTH_BIT if format == DEPTH else vk.VK_IMAGE_ASPECT_COLOR_BIT
    info = vk.VkImageViewCreateInfo(
        image=image,
        viewType=vk.VK_IMAGE_VIEW_TYPE_2D,
        format=format,
        subresourceRange=vk.VkImageSubresourceRange(aspect, 0, 1, 0, 1),
    )
    view = vk.vkCreateImageView(context.device, info, None)
    closing.callback(vk.vkDestroyImageView, context.device, view, None)
    return view


def make_timeline(context: Context, closing: ExitStack) -> Any:
    """A timeline semaphore at 0."""
    kind = vk.VkSemaphoreTypeCreateInfo(semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE, initialValue=0)
    semaphore = vk.vkCreateSemaphore(context.device, vk.VkSemaphoreCreateInfo(pNext=kind), None)
    closing.callback(vk.vkDestroySemaphore, context.device, semaphore, None)
    return semaphore


def move_image(commands: Any, image: Any, old: int, new: int) -> None:
    """Bring an image from one layout to another, after everything before and ahead of everything that follows."""
    barrier = vk.VkImageMemoryBarrier(
        srcAccessMask=vk.VK_ACCESS_MEMORY_WRITE_BIT,
        dstAccessMask=vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT,
        oldLayout=old,
        newLayout=new,
        srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        image=image,
        subresourceRange=vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1),
    )
    stages = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
    vk.vkCmdPipelineBarrier(commands, stages, stages, 0, 0, None, 0, None, 1, [barrier])
