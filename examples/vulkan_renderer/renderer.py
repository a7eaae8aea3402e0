"""Draws the scene into images, several frames at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import vulkan as vk

from .memory import DEPTH, HostBuffer, Target, make_buffer, make_target, make_timeline, make_view, move_image
from .pipelines import Look, compile_all, make_pipeline, make_render_pass
from .scene import SCENE_BYTES, Mesh, meshes, scene_bytes

if TYPE_CHECKING:
    from .context import Context

__all__ = ["FORMATS", "Frame", "Picture", "Renderer"]

FORMATS = {"rgba8": vk.VK_FORMAT_R8G8B8A8_UNORM, "rgba16f": vk.VK_FORMAT_R16G16B16A16_SFLOAT}
SEEN = vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
USAGE = (
    vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT
    | vk.VK_IMAGE_USAGE_SAMPLED_BIT
    | vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT
    | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
)
THINGS = Look("object", "object", closed=True)
SCREEN, GROUND = Look("surface", "screen"), Look("surface", "ground", blended=True)
SKY = Look("sky", "sky")


@dataclass(frozen=True)
class Picture:
    """An image that the screen in the scene shows. It is sampled: its usage has SAMPLED.

    Attributes
    ----------
    image
        VkImage, or its number.
    width, height
        Texels.
    format
        VkFormat.
    layout
        VkImageLayout that it is in when it is drawn: GENERAL or SHADER_READ_ONLY_OPTIMAL.
    encoded
        Its texels are sRGB-encoded, not linear light.
    """

    image: Any
    width: int
    height: int
    format: int = FORMATS["rgba8"]
    layout: int = SEEN
    encoded: bool = True


@dataclass(frozen=True)
class Frame:
    """A frame that is being drawn. Its image is drawn over `Renderer.frames` frames later.

    Attributes
    ----------
    image
        VkImage of the renderer's size and format, in the layout `layout`.
    usage
        VkImageUsageFlags that it was made with.
    number
        0, 1, ...
    done
        Timeline semaphore and the value that it has once the frame is drawn.
    encoded
        Texels are sRGB-encoded (8 bits), not linear light (float).
    """

    image: Any
    width: int
    height: int
    format: int
    number: int
    done: tuple[Any, int]
    encoded: bool
    layout: int = SEEN
    usage: int = USAGE

    def picture(self) -> Picture:
        """Give the frame as what the screen of the next one shows."""
        return Picture(self.image, self.width, self.height, self.format, self.layout, self.encoded)


@dataclass
class Slot:
    """What one frame in flight uses."""

    commands: Any
    target: Target
    framebuffer: Any
    scene: HostBuffer
    descriptors: Any
    number: int = -1
    shown: tuple[int, int, int] | None = None


class Renderer:
    """The scene at one size.

    Parameters
    ----------
    context
        The device.
    width, height
        Texels.
    format
        ``"rgba8"``: sRGB-encoded; ``"rgba16f"``: linear light.
    frames
        In flight at a time.
    samples
        Of each texel, 1 or 4.
    """

    def __init__(
        self,
        context: Context,
        width: int,
        height: int,
        format: str = "rgba8",
        *,
        frames: int = 3,
        samples: int = 1,
    ) -> None:
        if format not in FORMATS or width < 1 or height < 1 or frames < 1 or samples not in (1, 4):
            raise ValueError(
                f"{width} x {height} texels of {format!r}, {frames} frames, {samples} samples: sizes are at least 1, "
                f"formats {', '.join(FORMATS)}, samples 1 or 4"
            )
        self.context, self.width, self.height, self.frames = context, width, height, frames
        self.format, self.encoded, self.samples = FORMATS[format], format == "rgba8", samples
        self.number = 0
        self._closing = ExitStack()
        try:
            self._make()
        except BaseException:
            self._closing.close()
            raise

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the device and destroy everything that was made for drawing."""
        vk.vkDeviceWaitIdle(self.context.device)
        self._closing.close()

    def draw(
        self,
        time: float,
        picture: Picture | None = None,
        *,
        noisy: bool = False,
        wait: list[tuple[Any, int]] | None = None,
        signal: list[tuple[Any, int]] | None = None,
    ) -> Frame:
        """Give the device a frame to draw; returns before it is done.

        Parameters
        ----------
        time
            Seconds.
        picture
            What the screen in the scene shows; black by default. Not the image that is drawn into.
        noisy
            Shadows by one random ray per texel.
        wait, signal
            Timeline semaphores with values, besides `Frame.done`.
        """
        slot = self._slots[self.number % self.frames]
        self.wait(slot.number)
        shown = picture or Picture(self._black.handle, 1, 1, self.format)
        look = (1.15, float(shown.encoded), shown.width / shown.height if picture else 16 / 9)
        data, drawn = scene_bytes(time, self.width / self.height, seed=self.number, screen=look, one_ray=noisy)
        slot.scene.mapped[0:SCENE_BYTES] = data
        self._show(slot, shown)
        self._record(slot, drawn)
        slot.number, self.number = self.number, self.number + 1
        done = (self._timeline, slot.number + 1)
        self.context.submit(slot.commands, wait or [], [done, *(signal or [])])
        return Frame(slot.target.handle, self.width, self.height, self.format, slot.number, done, self.encoded)

    def wait(self, number: int, seconds: float = 60.0) -> None:
        """Wait until a frame is drawn."""
        self._wait((self._timeline, number + 1), seconds)

    def wait_for(self, frame: Frame, seconds: float = 60.0) -> None:
        """Wait until a frame is there, whoever makes it."""
        self._wait(frame.done, seconds)

    def _wait(self, done: tuple[Any, int], seconds: float) -> None:
        semaphore, value = done
        info = vk.VkSemaphoreWaitInfo(pSemaphores=[semaphore], pValues=[value])
        vk.vkWaitSemaphores(self.context.device, info, int(seconds * 1e9))

    def _make(self) -> None:
        context, closing, device = self.context, self._closing, self.context.device
        self._pass = make_render_pass(context, closing, self.format, self.samples)
        self._timeline = make_timeline(context, closing)
        self._make_layout()
        code = compile_all()
        self._pipelines = {
            look: make_pipeline(
                context,
                closing,
                look,
                code,
                layout=self._layout,
                render_pass=self._pass,
                samples=self.samples,
                encoded=self.encoded,
            )
            for look in (THINGS, THINGS.reflection(), SCREEN, SCREEN.reflection(), GROUND, SKY)
        }
        self._upload_meshes(meshes())
        size = (self.width, self.height)
        drawn_only = vk.VK_IMAGE_USAGE_TRANSIENT_ATTACHMENT_BIT
        attachment = vk.VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT | drawn_only
        shared = [make_target(context, closing, size, DEPTH, attachment, self.samples)]
        if self.samples > 1:
            attachment = vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | drawn_only
            shared.insert(0, make_target(context, closing, size, self.format, attachment, self.samples))
        self._views: dict[tuple[int, int], Any] = {}
        pool = vk.vkCreateCommandPool(
            device,
            vk.VkCommandPoolCreateInfo(
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, queueFamilyIndex=context.family
            ),
            None,
        )
        closing.callback(vk.vkDestroyCommandPool, device, pool, None)
        buffers = vk.vkAllocateCommandBuffers(
            device, vk.VkCommandBufferAllocateInfo(commandPool=pool, level=0, commandBufferCount=self.frames + 1)
        )
        self._slots = [self._make_slot(buffers[i], shared) for i in range(self.frames)]
        self._black = make_target(context, closing, (1, 1), self.format, USAGE)
        self._clear(buffers[self.frames], self._black.handle)

    def _make_layout(self) -> None:
        device, closing = self.context.device, self._closing
        stages = vk.VK_SHADER_STAGE_VERTEX_BIT | vk.VK_SHADER_STAGE_FRAGMENT_BIT
        kinds = (vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER)
        bindings = [vk.VkDescriptorSetLayoutBinding(i, kind, 1, stages) for i, kind in enumerate(kinds)]
        info = vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings)
        self._set_layout = vk.vkCreateDescriptorSetLayout(device, info, None)
        closing.callback(vk.vkDestroyDescriptorSetLayout, device, self._set_layout, None)
        info = vk.VkPipelineLayoutCreateInfo(pSetLayouts=[self._set_layout])
        self._layout = vk.vkCreatePipelineLayout(device, info, None)
        closing.callback(vk.vkDestroyPipelineLayout, device, self._layout, None)
        info = vk.VkDescriptorPoolCreateInfo(
            maxSets=self.frames, pPoolSizes=[vk.VkDescriptorPoolSize(kind, self.frames) for kind in kinds]
        )
        self._descriptors = vk.vkCreateDescriptorPool(device, info, None)
        closing.callback(vk.vkDestroyDescriptorPool, device, self._descriptors, None)
        edge = vk.VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE
        info = vk.VkSamplerCreateInfo(
            magFilter=1, minFilter=1, addressModeU=edge, addressModeV=edge, addressModeW=edge, maxLod=0.0
        )
        self._sampler = vk.vkCreateSampler(device, info, None)
        closing.callback(vk.vkDestroySampler, device, self._sampler, None)

    def _upload_meshes(self, found: dict[str, Mesh]) -> None:
        self._ranges, first_index, first_vertex = {}, 0, 0
        for name, mesh in found.items():
            self._ranges[name] = (len(mesh.indices), first_index, first_vertex)
            first_index, first_vertex = first_index + len(mesh.indices), first_vertex + len(mesh.vertices)
        parts = {
            vk.VK_BUFFER_USAGE_VERTEX_BUFFER_BIT: np.concatenate([mesh.vertices for mesh in found.values()]),
            vk.VK_BUFFER_USAGE_INDEX_BUFFER_BIT: np.concatenate([mesh.indices for mesh in found.values()]),
        }
        made = []
        for usage, array in parts.items():
            buffer = make_buffer(self.context, self._closing, array.nbytes, usage)
            buffer.mapped[0 : array.nbytes] = array.tobytes()
            made.append(buffer.handle)
        self._vertices, self._indices = made

    def _make_slot(self, commands: Any, shared: list[Target]) -> Slot:
        context, closing, device = self.context, self._closing, self.context.device
        target = make_target(context, closing, (self.width, self.height), self.format, USAGE)
        views = [*(part.view for part in shared), target.view] if self.samples > 1 else [target.view, shared[0].view]
        info = vk.VkFramebufferCreateInfo(
            renderPass=self._pass, pAttachments=views, width=self.width, height=self.height, layers=1
        )
        framebuffer = vk.vkCreateFramebuffer(device, info, None)
        closing.callback(vk.vkDestroyFramebuffer, device, framebuffer, None)
        scene = make_buffer(context, closing, SCENE_BYTES, vk.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT)
        (descriptors,) = vk.vkAllocateDescriptorSets(
            device,
            vk.VkDescriptorSetAllocateInfo(descriptorPool=self._descriptors, pSetLayouts=[self._set_layout]),
        )
        write = vk.VkWriteDescriptorSet(
            dstSet=descriptors,
            dstBinding=0,
            descriptorCount=1,
            descriptorType=vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
            pBufferInfo=[vk.VkDescriptorBufferInfo(scene.handle, 0, SCENE_BYTES)],
        )
        vk.vkUpdateDescriptorSets(device, 1, [write], 0, None)
        return Slot(commands, target, framebuffer, scene, descriptors)

    def _clear(self, commands: Any, image: Any) -> None:
        """Make an image black, for a screen that shows nothing."""
        whole = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo(flags=1))
        transfer = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        move_image(commands, image, 0, transfer)
        vk.vkCmdClearColorImage(commands, image, transfer, vk.VkClearColorValue(float32=[0, 0, 0, 1]), 1, [whole])
        move_image(commands, image, transfer, SEEN)
        vk.vkEndCommandBuffer(commands)
        self.context.submit(commands, [], [])

    def _show(self, slot: Slot, picture: Picture) -> None:
        """Let the screen show an image; the slot is at rest."""
        image = picture.image
        number = image if isinstance(image, int) else int(vk.ffi.cast("uintptr_t", image))
        if number == int(vk.ffi.cast("uintptr_t", slot.target.handle)):
            raise ValueError("the image that is drawn into cannot be on the screen: use more frames")
        if slot.shown == (number, picture.format, picture.layout):
            return
        if (number, picture.format) not in self._views:
            handle = vk.ffi.cast("VkImage", number)
            self._views[number, picture.format] = make_view(self.context, self._closing, handle, picture.format)
        write = vk.VkWriteDescriptorSet(
            dstSet=slot.descriptors,
            dstBinding=1,
            descriptorCount=1,
            descriptorType=vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
            pImageInfo=[vk.VkDescriptorImageInfo(self._sampler, self._views[number, picture.format], picture.layout)],
        )
        vk.vkUpdateDescriptorSets(self.context.device, 1, [write], 0, None)
        slot.shown = (number, picture.format, picture.layout)

    def _record(self, slot: Slot, drawn: list[str]) -> None:
        """Things, what is seen of their reflections and of the sky, and the ground over these."""
        commands = slot.commands
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo(flags=1))
        area = vk.VkRect2D(extent=vk.VkExtent2D(self.width, self.height))
        black = vk.VkClearValue(color=vk.VkClearColorValue(float32=[0, 0, 0, 1]))
        far = vk.VkClearValue(depthStencil=vk.VkClearDepthStencilValue(1.0, 0))
        info = vk.VkRenderPassBeginInfo(
            renderPass=self._pass, framebuffer=slot.framebuffer, renderArea=area, pClearValues=[black, far]
        )
        vk.vkCmdBeginRenderPass(commands, info, vk.VK_SUBPASS_CONTENTS_INLINE)
        vk.vkCmdSetViewport(commands, 0, 1, [vk.VkViewport(0, 0, self.width, self.height, 0, 1)])
        vk.vkCmdSetScissor(commands, 0, 1, [area])
        vk.vkCmdBindDescriptorSets(commands, 0, self._layout, 0, 1, [slot.descriptors], 0, None)
        vk.vkCmdBindVertexBuffers(commands, 0, 1, [self._vertices], [0])
        vk.vkCmdBindIndexBuffer(commands, self._indices, 0, vk.VK_INDEX_TYPE_UINT32)
        things = list(enumerate(drawn))
        ground, screen, rest = things[:1], things[1:2], things[2:]
        self._draw(commands, THINGS, rest)
        self._draw(commands, SCREEN, screen)
        self._draw(commands, THINGS.reflection(), rest)
        self._draw(commands, SCREEN.reflection(), screen)
        vk.vkCmdBindPipeline(commands, 0, self._pipelines[SKY])
        vk.vkCmdDraw(commands, 3, 1, 0, 0)
        self._draw(commands, GROUND, ground)
        vk.vkCmdEndRenderPass(commands)
        vk.vkEndCommandBuffer(commands)

    def _draw(self, commands: Any, look: Look, things: list[tuple[int, str]]) -> None:
        vk.vkCmdBindPipeline(commands, 0, self._pipelines[look])
        for index, mesh in things:
            count, first_index, first_vertex = self._ranges[mesh]
            vk.vkCmdDrawIndexed(commands, count, 1, first_index, first_vertex, index)
