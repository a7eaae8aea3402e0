"""Images of a device, with colours that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

import etarena
from etarena import vulkan

__all__ = ["content", "tensor", "texels"]


def texels(seed: int, format: str = "rgba8", height: int = 4, width: int = 6) -> np.ndarray:
    """Random texels (height, width, channels) as they are stored; bytes are even, so that their halves are codes."""
    shape = vulkan.FORMATS[format]
    rng = np.random.default_rng(seed)
    sizes = (height, width, shape.channels)
    if shape.dtype == "uint8":
        return rng.integers(0, 128, sizes, dtype=np.uint8) * 2
    return rng.normal(0.5, 1.0, sizes).astype(shape.dtype)


def tensor(device: vulkan.Device, image: vulkan.Image, channels: int = 4, **more: Any) -> etarena.ETensor:
    """The colours of an image, by default with alpha."""
    return etarena.ETensor.from_vulkan_image(device, image, channels=channels, **more)


def content(device: vulkan.Device, image: vulkan.Image) -> np.ndarray:
    """The texels of an image."""
    shape = vulkan.format_of(image.format)
    out = np.empty((image.height, image.width, shape.channels), shape.dtype)
    device.copy(out, image)
    return out
