"""What is behind tensors that are on the device: buffers, and images that are converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError
from ...device.kinds import ResourceKind
from ...device.vulkan.memory import Buffer, Image, known_object
from ...device.vulkan.transfers import Span, owner_of
from .bound import padded

if TYPE_CHECKING:
    from ...device.etensor import ETensor
    from ...device.vulkan.device import Device

__all__ = ["buffer_of", "image_of", "key_of"]

ROBUST = "robustBufferAccess"


def key_of(device: Device, tensor: ETensor) -> tuple[int, ...] | None:
    """What tells a tensor's place on the device from others, as long as what is recorded for it is kept.

    None: nobody here knows the handle, which may be another object's when it is seen again.
    """
    resource = tensor.resource
    is_image = resource.kind == ResourceKind.VK_IMAGE
    owner = owner_of(resource) or known_object(device.core, Image if is_image else Buffer, resource.handle)
    if owner is None:
        return None
    if not is_image:
        return id(owner), resource.offset
    details = resource.details
    layout = details["layout"] if owner.adopted else owner.layout  # that of now, not of when the tensor was made
    return id(owner), layout, details["colour_space"], details["format"]


def image_of(device: Device, tensor: ETensor) -> tuple[Image, str] | None:
    """The image that a tensor's numbers are the colours of, and its colour space; None for a buffer.

    Raises
    ------
    DeviceError
        It is of another device, of another extent than the tensor, or in a layout that it cannot be in.
    """
    if tensor.resource.kind != ResourceKind.VK_IMAGE:
        return None
    place = device.transfers.place_of_resource(tensor.resource)
    assert isinstance(place, Image)
    details = tensor.resource.details
    if place.adopted:
        place.layout = details["layout"]
    if tensor.dtype != "float32" or tensor.shape[:1] + tensor.shape[2:] != (1, place.height, place.width):
        raise DeviceError(
            f"an image of {place.width} x {place.height} texels is given as a {tensor.dtype} tensor of shape "
            f"{tensor.shape}: its colours are a float32 tensor of shape (1, channels, {place.height}, {place.width})"
        )
    return place, "srgb" if details["colour_space"] else "linear"


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
