"""Buffers and images as tensors: the part of `Device` about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...allocator.errors import DeviceError, InputError
from ..etensor import ETensor
from ..handles import handle_number
from ..resource import Resource
from .device_memory import BUFFER_USAGE
from .formats import Format, format_of
from .memory import Buffer, Image
from .transfers import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..device import Device as DeviceTag
    from .core import DeviceCore
    from .info import DeviceInfo

__all__ = ["DeviceTensors", "colour_space_of"]

COLOUR_SPACES = ("linear", "srgb")
GENERAL = 1  # VkImageLayout
LAYOUTS = {
    "undefined": 0,
    "general": GENERAL,
    "color_attachment": 2,
    "shader_read_only": 5,
    "transfer_src": 6,
    "transfer_dst": 7,
}
SAMPLED, STORAGE, TRANSFER = 0x4, 0x8, 0x3  # VkImageUsageFlagBits
USABLE = SAMPLED | STORAGE | TRANSFER


def layout_number(layout: str | int) -> int:
    """Find a VkImageLayout that an image of colours can be in.

    Raises
    ------
    InputError
        It is none.
    """
    number = LAYOUTS.get(layout.lower(), -1) if isinstance(layout, str) else layout
    if isinstance(number, bool) or not isinstance(number, int) or number not in LAYOUTS.values():
        known = ", ".join(f"{name} ({value})" for name, value in LAYOUTS.items())
        raise InputError(f"layout {layout!r} is none of an image that becomes a tensor: {known}")
    return number


def colour_space_of(shape: Format, given: str | None) -> str:
    """What the texels of a format hold: as it is said, or as the format implies.

    Raises
    ------
    InputError
        An unknown colour space, or another one than the format has.
    """
    if given is None:
        return "srgb" if shape.srgb else "linear"
    if given not in COLOUR_SPACES:
        raise InputError(f"colour_space={given!r}: expected 'linear' or 'srgb'")
    if shape.srgb and given != "srgb":
        raise InputError(f"texels of {shape.name} are sRGB-encoded: colour_space is 'srgb'")
    return given


class DeviceTensors:
    """What sees memory of the device as tensors."""

    core: DeviceCore
    info: DeviceInfo
    tag: DeviceTag

    def tensor(self, where: Buffer | Span | Image, dtype: Any, shape: Any, **layout: Any) -> ETensor:
        """See a buffer, bytes of one, or the bytes of an image as a tensor; it stays open as long as the tensor.

        Parameters
        ----------
        where
            Of this device.
        dtype, shape, layout
            As for `etarena.ETensor.from_resource`.
        """
        buffer = where.buffer if isinstance(where, Span) else where
        self._require_own(buffer)
        resource = where.buffer.resource(where.offset, where.nbytes) if isinstance(where, Span) else where.resource()
        return ETensor.from_resource(resource, dtype, shape, self.tag, **layout)

    def buffer_tensor(
        self,
        buffer: Any,
        dtype: Any,
        shape: int | Sequence[int],
        *,
        offset: int = 0,
        nbytes: int | None = None,
        usage: int = BUFFER_USAGE,
        **layout: Any,
    ) -> ETensor:
        """A tensor in a buffer, `ETensor.from_vulkan_buffer`.

        Parameters
        ----------
        buffer
            A `Buffer` of this device, or the application's VkBuffer, which outlives the tensor.
        dtype, shape
            Of the tensor.
        offset
            First byte, a multiple of the item size; shaders need a multiple of ``minStorageBufferOffsetAlignment``.
        nbytes
            Size of the application's buffer from `offset` on; by default what a row-major tensor takes.
        usage
            VkBufferUsageFlags that the application's buffer was made with.
        layout
            ``strides``, ``dim_order``, ``readonly`` as for `etarena.ETensor.from_resource`.

        Raises
        ------
        DeviceError
            A buffer of another device, too small, or without any usage that etarena has use for; a null handle.
        """
        if isinstance(buffer, Buffer):
            self._require_own(buffer)
            resource = buffer.resource(offset, nbytes)
            return ETensor.from_resource(resource, dtype, shape, self.tag, **layout)
        number = required_handle(buffer, "buffer")
        if not usage & BUFFER_USAGE:
            raise DeviceError(
                f"usage 0x{usage:x}: a buffer of a tensor has STORAGE_BUFFER, TRANSFER_SRC or TRANSFER_DST"
            )
        if nbytes is None:
            nbytes = ETensor.from_vulkan_buffer(number, dtype, shape, **layout).resource.nbytes
        if not isinstance(offset, int) or offset < 0 or nbytes < 0:
            raise DeviceError(f"{nbytes} bytes from {offset} on: neither is negative")
        adopted = Buffer(self.core, max(offset + nbytes, 1), usage, handle=number)
        return ETensor.from_resource(adopted.resource(offset, nbytes), dtype, shape, self.tag, **layout)

    def image_tensor(
        self,
        image: Any,
        width: int | None = None,
        height: int | None = None,
        format: str | int | None = None,
        *,
        layout: str | int = GENERAL,
        channels: int = 3,
        colour_space: str | None = None,
        usage: int = SAMPLED | STORAGE | TRANSFER,
        readonly: bool = False,
    ) -> ETensor:
        """The colours of an image as a float32 tensor (1, channels, height, width), `ETensor.from_vulkan_image`.

        Nothing is converted here: whoever takes the tensor does so on the device, see
        `etarena.delegates.vulkan.images`.

        Parameters
        ----------
        image
            An `Image` of this device, or the application's VkImage, which outlives the tensor.
        width, height, format, layout, usage
            Of the application's image: texels, a name in `FORMATS` or VkFormat, VkImageLayout that it is in when the
            device comes to it ("general", "shader_read_only", ... or its number), VkImageUsageFlags. An `Image` knows
            its own.
        channels
            4: with alpha. 3: alpha is not read, and written as 1. 1: for formats of one channel; of others, grey.
        colour_space
            What the texels hold: ``"linear"``, numbers that go as they are, or ``"srgb"``, encoded light of which the
            tensor has the linear light. By default ``"srgb"`` for sRGB formats, otherwise ``"linear"``.
        readonly
            Refuse writers.

        Raises
        ------
        DeviceError
            An image of another device, a null handle, an unknown format, an extent or usage that does not do.
        InputError
            Channels that the format does not have, an unknown layout or colour space.
        """
        if isinstance(image, Image):
            self._require_own(image)
            for name, given, has in (("width", width, image.width), ("height", height, image.height)):
                if given not in (None, has):
                    raise DeviceError(f"{name}={given}: the image has {has} texels")
            if format is not None and format_of(format).number != image.format:
                raise DeviceError(f"format={format!r}: the image has {format_of(image.format).name}")
            found = image
        else:
            found = self._adopt_image(image, width, height, format, layout_number(layout), usage)
        shape = format_of(found.format)
        require_channels(shape, channels)
        encoded = colour_space_of(shape, colour_space) == "srgb"
        if found.depth != 1:
            raise DeviceError(f"an image of {found.depth} texels depth is no picture: it has a depth of 1")
        if not found.usage & USABLE:
            raise DeviceError(
                f"usage 0x{found.usage:x}: an image of a tensor has SAMPLED, STORAGE, TRANSFER_SRC or TRANSFER_DST"
            )
        resource = Resource.vk_image(
            found.handle,
            width=found.width,
            height=found.height,
            format=found.format,
            layout=found.layout,
            view=found.view,
            device=self.core.handle,
            usage=found.usage,
            srgb=encoded,
            owner=(found, found.lease("a tensor of it")),
        )
        sizes = (1, channels, found.height, found.width)
        return ETensor.from_resource(resource, "float32", sizes, self.tag, readonly=readonly)

    def _adopt_image(
        self, image: Any, width: int | None, height: int | None, format: str | int | None, layout: int, usage: int
    ) -> Image:
        number = required_handle(image, "image")
        if width is None or height is None or format is None:
            raise InputError("width, height and format of the application's image are needed: Vulkan cannot be asked")
        largest = self.info.limits["maxImageDimension2D"]
        for name, extent in (("width", width), ("height", height)):
            if isinstance(extent, bool) or not isinstance(extent, int) or not 0 < extent <= largest:
                raise DeviceError(f"{name}={extent!r}: images of this device have 1 to {largest} texels")
        return Image(self.core, width, height, 1, format_of(format).number, usage, layout=layout, handle=number)

    def _require_own(self, what: Buffer | Image) -> None:
        if what.core is not self.core:
            raise DeviceError(f"a {type(what).__name__} of another Vulkan device was given")


def required_handle(handle: Any, name: str) -> int:
    number = handle_number(handle, name)
    if number == 0:
        raise DeviceError(f"the {name} is a null handle")
    return number


def require_channels(shape: Format, channels: int) -> None:
    wanted = (1, 3, 4) if shape.channels == 4 else (1,)
    if isinstance(channels, bool) or channels not in wanted:
        raise InputError(f"channels={channels!r}: tensors of {shape.name} have {' or '.join(map(str, wanted))}")
