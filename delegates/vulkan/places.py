"""Buffers behind tensors that are on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError
from ...device.vulkan.transfers import Span
from .bound import padded

if TYPE_CHECKING:
    from ...device.etensor import ETensor
    from ...device.vulkan.device import Device
    from ...device.vulkan.memory import Buffer

__all__ = ["buffer_of"]

ROBUST = "robustBufferAccess"


def buffer_of(device: Device, tensor: ETensor) -> tuple[Buffer, int]:
    """The buffer that a tensor on the device is in, and where.

    Raises
    ------
    DeviceError
        It is of another device, or no buffer; or it ends where shaders read on and the device does not catch that.
    """
    place = device.transfers.place_of_resource(tensor.resource)
    if not isinstance(place, Span):
        raise DeviceError("an image is given where a Vulkan delegate wants a buffer")
    room = place.buffer.nbytes - place.offset
    if room < padded(tensor.nbytes) and ROBUST not in device.enabled_features:
        raise DeviceError(
            f"a tensor of {tensor.nbytes} bytes ends {room} bytes into its VkBuffer, where shaders read vectors of 16 "
            f"bytes: make the buffer larger, or enable the feature {ROBUST}"
        )
    return place.buffer, place.offset
