"""Formats of images that tensors can be copied to and from."""

from __future__ import annotations

from dataclasses import dataclass

from ...allocator.errors import DeviceError

__all__ = ["FORMATS", "Format", "format_of"]


@dataclass(frozen=True)
class Format:
    """A format of images.

    Attributes
    ----------
    name
        Short name.
    number
        VkFormat.
    channels
        Numbers in a texel.
    dtype
        Of each number as it lies in memory.
    texel_bytes
        Size of a texel.
    srgb
        Whether shaders read it through the sRGB curve. Copies move the bytes as they are.
    """

    name: str
    number: int
    channels: int
    dtype: str
    texel_bytes: int
    srgb: bool = False


FORMATS = {
    shape.name: shape
    for shape in (
        Format("r8", 9, 1, "uint8", 1),
        Format("rgba8", 37, 4, "uint8", 4),
        Format("rgba8_srgb", 43, 4, "uint8", 4, srgb=True),
        Format("bgra8", 44, 4, "uint8", 4),
        Format("bgra8_srgb", 50, 4, "uint8", 4, srgb=True),
        Format("r16f", 76, 1, "float16", 2),
        Format("rgba16f", 97, 4, "float16", 8),
        Format("r32f", 100, 1, "float32", 4),
        Format("rgba32f", 109, 4, "float32", 16),
    )
}
_BY_NUMBER = {shape.number: shape for shape in FORMATS.values()}


def format_of(what: str | int) -> Format:
    """Find a format by its name or its VkFormat.

    Raises
    ------
    DeviceError
        None of those that are known.
    """
    found = FORMATS.get(what) if isinstance(what, str) else _BY_NUMBER.get(what)
    if found is None:
        known = ", ".join(f"{shape.name} ({shape.number})" for shape in FORMATS.values())
        raise DeviceError(f"image format {what!r} is not known; known are {known}")
    return found
