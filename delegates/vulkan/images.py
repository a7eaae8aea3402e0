"""Colours of images to tensors and back, on the device.

A tensor has the shape (1, channels, height, width), float32, row-major, from the top left. With ``mean`` and ``std``
for each channel it has ``(colour - mean) / std``, and ``colour = number * std + mean`` goes back.

* ``r8`` and the 8-bit RGBA formats hold colours from 0 to 1; what goes back is clamped to that. Float formats hold
  any number; halves are clamped to what is finite, -65504 to 65504. NaN becomes 0.
* Colour space ``"linear"``: numbers go as they are stored. ``"srgb"``: texels are encoded as in IEC 61966-2-1, the
  tensor has linear light; alpha is never encoded. Formats with sRGB in their name are ``"srgb"``.
* Alpha: with four channels it is the fourth number, not multiplied into the others. With three or one it is not read,
  and written as 1.
* One channel of an RGBA format is grey: read by the weights of ITU-R BT.709 (0.2126, 0.7152, 0.0722) of what the
  colour space gives, and written into red, green and blue alike.

There are two ways. *In place* the image is sampled (usage SAMPLED) or written as a storage image (usage STORAGE).
*Through a buffer* of the device its texels are copied (usage TRANSFER_SRC or TRANSFER_DST), which takes any format.
Shaders cannot write sRGB formats in place; ``bgra8`` only with the feature shaderStorageImageWriteWithoutFormat,
since SPIR-V has no name for it; ``r8`` and ``r16f`` only with shaderStorageImageExtendedFormats. CPU devices are
quicker through a buffer and take that way, others work in place, if the image and the device allow it. Neither way
leaves the device.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError, InputError
from ...device.vulkan.device_memory import BUFFER_USAGE
from ...device.vulkan.formats import Format, format_of
from ...device.vulkan.tensors import colour_space_of, require_channels
from .shader_files import shader_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...device.vulkan.commands import Commands
    from ...device.vulkan.device import Device
    from ...device.vulkan.memory import Buffer, Image

__all__ = ["record_image_to_tensor", "record_tensor_to_image", "tensor_bytes", "texel_bytes"]

UNDEFINED, GENERAL, SHADER_READ_ONLY, PREINITIALIZED = 0, 1, 5, 8  # VkImageLayout
TRANSFER_SRC, TRANSFER_DST, SAMPLED, STORAGE = 0x1, 0x2, 0x4, 0x8  # VkImageUsageFlagBits
GROUP = 128  # invocations, each for four texels
LARGEST_HALF, LARGEST_FLOAT = 65504.0, 3.4028234663852886e38
# Formats of storage images that a shader names, and the feature without which it may not.
NAMED_FORMATS = {
    "rgba8": None,
    "rgba16f": None,
    "rgba32f": None,
    "r32f": None,
    "r8": "shaderStorageImageExtendedFormats",
    "r16f": "shaderStorageImageExtendedFormats",
}
ANY_FORMAT = "shaderStorageImageWriteWithoutFormat"


def tensor_bytes(image: Image, channels: int) -> int:
    """Bytes of the tensor of an image."""
    return 4 * channels * image.width * image.height


def texel_bytes(image: Image) -> int:
    """Bytes that the texels of an image take in a buffer on their way."""
    return -(-image.width * image.height // 4) * 4 * format_of(image.format).texel_bytes


@dataclass(frozen=True)
class Conversion:
    """One conversion of an image, of all that both directions need."""

    device: Device
    commands: Commands
    image: Image
    buffer: Buffer
    offset: int
    channels: int
    encoded: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def shape(self) -> Format:
        """The image's format."""
        return format_of(self.image.format)

    @property
    def texels(self) -> int:
        """How many there are."""
        return self.image.width * self.image.height

    @property
    def numbers(self) -> tuple[Buffer, int, int]:
        """The tensor as a binding."""
        return self.buffer, self.offset, tensor_bytes(self.image, self.channels)

    def staging(self, given: tuple[Buffer, int] | None) -> tuple[Buffer, int, int]:
        """Where the texels go on their way: as a binding."""
        nbytes = texel_bytes(self.image)
        buffer, offset = (self.device.buffer(nbytes, usage=BUFFER_USAGE), 0) if given is None else given
        return buffer, offset, nbytes

    def texel_shader(self, name: str) -> str:
        """The variant of a shader for texels in a buffer."""
        return f"{name}_{self.shape.name.replace('bgra', 'rgba').removesuffix('_srgb')}"

    def dispatch(
        self,
        shader: str,
        bindings: str,
        resources: tuple[tuple[Buffer, int, int] | Image, ...],
        numbers: tuple[list[float], list[float]],
        *,
        decoded: bool = False,
        swapped: bool = False,
    ) -> None:
        """Record the shader over all texels: `numbers` are factor and offset of each channel."""
        name = f"{shader}_vectors" if self.texels % 4 == 0 else shader
        highest = {"uint8": 1.0, "float16": LARGEST_HALF, "float32": LARGEST_FLOAT}[self.shape.dtype]
        constants: dict[int, int | float | bool] = {
            0: self.channels,
            1: self.shape.channels,
            2: self.encoded and not decoded,
            3: 0.0 if self.shape.dtype == "uint8" else -highest,
            4: highest,
            5: swapped,
            100: GROUP,
        }
        pipeline = self.device.pipeline(name, shader_code(name), bindings, 48, constants)
        factor, offset = ([*values, *values[:1] * 4][:4] for values in numbers)
        if not all(abs(value) <= LARGEST_FLOAT for value in (*factor, *offset)):
            raise InputError(f"mean {self.mean} and std {self.std} go beyond the numbers of float32")
        push = struct.pack("4I8f", self.image.width, self.texels, 0, 0, *factor, *offset)
        groups = -(-self.texels // (4 * GROUP))
        rows = -(-groups // self.device.info.limits["maxComputeWorkGroupCountX"])
        self.commands.dispatch(pipeline, resources, push, (-(-groups // rows), rows, 1))


def record_image_to_tensor(
    device: Device,
    commands: Commands,
    image: Image,
    buffer: Buffer,
    offset: int = 0,
    *,
    channels: int = 3,
    colour_space: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    through_buffer: bool | None = None,
    texels: tuple[Buffer, int] | None = None,
) -> None:
    """Record the conversion of an image to a tensor; ordered with what is recorded before and after.

    Parameters
    ----------
    device, commands
        `commands` of the device, being recorded.
    image
        With something in it: not in the layout UNDEFINED. It is brought back to the layout it has.
    buffer, offset
        Where the tensor begins, at a multiple of ``minStorageBufferOffsetAlignment``; `tensor_bytes` are written.
    channels
        1, 3 or 4; 1 for formats of one channel.
    colour_space
        What the texels hold: ``"linear"`` or ``"srgb"``; by default what the format says.
    mean, std
        Of each channel; 0 and 1 by default.
    through_buffer
        Which way is tried first; by default what suits the device.
    texels
        Buffer and offset for the texels where they go through one, `texel_bytes` of memory that is free meanwhile; the
        tensor may lie in the same buffer beside them. By default a buffer is made and kept with the recording.

    Raises
    ------
    DeviceError
        Another device, usage or layout than is needed, a tensor that is not inside the buffer.
    InputError
        Channels, colour space, mean or std that do not fit.
    """
    work = conversion(device, commands, image, buffer, offset, channels, colour_space, mean, std)
    numbers = [1 / s for s in work.std], [-m / s for m, s in zip(work.mean, work.std, strict=True)]
    if image.layout in (UNDEFINED, PREINITIALIZED):
        raise DeviceError("the image is in the layout UNDEFINED: nothing was written to it; say its layout if it was")
    swapped = work.shape.name.startswith("bgra")
    if image.usage & SAMPLED and not (image.usage & TRANSFER_SRC and prefers_buffer(device, through_buffer)):
        before = image.layout
        if before in (GENERAL, SHADER_READ_ONLY):
            commands.barrier()
        else:
            commands.transition(image, SHADER_READ_ONLY)
        decoded = work.shape.srgb  # by the sampler, which also gives red first
        work.dispatch("image_to_tensor", "tb", (image, work.numbers), numbers, decoded=decoded)
        commands.barrier()
        if image.layout != before:
            commands.transition(image, before)
    elif image.usage & TRANSFER_SRC:
        source = work.staging(texels)
        commands.copy_from_image(image, source[0], source[1], work.texels * work.shape.texel_bytes)
        work.dispatch(work.texel_shader("texels_to_tensor"), "bb", (source, work.numbers), numbers, swapped=swapped)
        commands.barrier()
    else:
        raise DeviceError(
            f"the image was made with the usage 0x{image.usage:x}: SAMPLED or TRANSFER_SRC is needed to read it"
        )


def record_tensor_to_image(
    device: Device,
    commands: Commands,
    buffer: Buffer,
    offset: int,
    image: Image,
    *,
    channels: int = 3,
    colour_space: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    through_buffer: bool | None = None,
    texels: tuple[Buffer, int] | None = None,
) -> None:
    """Record the conversion of a tensor to an image, all of which is written.

    As `record_image_to_tensor`; an image in the layout UNDEFINED ends in GENERAL.
    """
    work = conversion(device, commands, image, buffer, offset, channels, colour_space, mean, std)
    numbers = list(work.std), list(work.mean)
    shader = storage_shader(work)
    swapped = work.shape.name.startswith("bgra")
    if shader is not None and not (image.usage & TRANSFER_DST and prefers_buffer(device, through_buffer)):
        before = image.layout
        if before == GENERAL:
            commands.barrier()
        else:
            commands.transition(image, GENERAL)
        work.dispatch(shader, "bi", (work.numbers, image), numbers)
        commands.barrier()
        if before not in (GENERAL, UNDEFINED, PREINITIALIZED):
            commands.transition(image, before)
    elif image.usage & TRANSFER_DST:
        to = work.staging(texels)
        commands.barrier()
        work.dispatch(work.texel_shader("tensor_to_texels"), "bb", (work.numbers, to), numbers, swapped=swapped)
        commands.copy_to_image(to[0], to[1], work.texels * work.shape.texel_bytes, image)
    else:
        raise DeviceError(
            f"the image was made with the usage 0x{image.usage:x}: TRANSFER_DST is needed to write it, or STORAGE for "
            f"formats that this device's shaders write, which {work.shape.name} "
            f"{'is not' if image.usage & STORAGE else 'may be'}"
        )


def prefers_buffer(device: Device, asked: bool | None) -> bool:
    return device.info.kind == "cpu" if asked is None else asked


def storage_shader(work: Conversion) -> str | None:
    """The shader that writes an image in place; None if usage, format or the device's features do not allow it."""
    name, features = work.shape.name, work.device.enabled_features
    if not work.image.usage & STORAGE or work.shape.srgb:
        return None
    if name in NAMED_FORMATS and (NAMED_FORMATS[name] is None or NAMED_FORMATS[name] in features):
        return f"tensor_to_image_{name}"
    return "tensor_to_image" if ANY_FORMAT in features else None


def conversion(
    device: Device,
    commands: Commands,
    image: Image,
    buffer: Buffer,
    offset: int,
    channels: int,
    colour_space: str | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Conversion:
    """Check what both directions are given."""
    for what in (commands, image, buffer):
        if what.core is not device.core:
            raise DeviceError(f"a {type(what).__name__} of another Vulkan device was given")
    shape = format_of(image.format)
    require_channels(shape, channels)
    if image.depth != 1:
        raise DeviceError(f"an image of {image.depth} texels depth is no picture: it has a depth of 1")
    encoded = colour_space_of(shape, colour_space) == "srgb"
    middle, spread = (
        per_channel(name, given, default, channels) for name, given, default in (("mean", mean, 0.0), ("std", std, 1.0))
    )
    if 0.0 in spread:
        raise InputError("std has a 0: the channel could not be divided by it")
    return Conversion(device, commands, image, buffer, offset, channels, encoded, middle, spread)


def per_channel(name: str, given: Sequence[float] | None, default: float, channels: int) -> tuple[float, ...]:
    values = (default,) * channels if given is None else tuple(float(value) for value in given)
    if len(values) != channels or not all(abs(value) <= LARGEST_FLOAT for value in values):
        raise InputError(f"{name}={given!r}: {channels} finite numbers are expected, one for each channel")
    return values
