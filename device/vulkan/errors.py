"""What Vulkan refuses, as exceptions: each is a `DeviceError` and the closest builtin."""

from __future__ import annotations

from typing import NoReturn

from ...allocator.errors import ArenaFullError, DeviceError

__all__ = [
    "DeviceLostError",
    "MissingFeatureError",
    "OutOfMemoryError",
    "VulkanError",
    "WaitTimeoutError",
    "raise_failure",
    "raise_missing",
]

_RESULTS = {
    1: ("VK_NOT_READY", "the result is not there yet"),
    2: ("VK_TIMEOUT", "the wait took too long"),
    -1: ("VK_ERROR_OUT_OF_HOST_MEMORY", "the driver found no CPU memory"),
    -2: ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "the device has no room: free buffers and images, or ask for less"),
    -3: ("VK_ERROR_INITIALIZATION_FAILED", "the driver could not start"),
    -4: ("VK_ERROR_DEVICE_LOST", "the device failed or was reset: close it with all that was made on it, make another"),
    -5: ("VK_ERROR_MEMORY_MAP_FAILED", "the memory could not be mapped"),
    -6: ("VK_ERROR_LAYER_NOT_PRESENT", "a layer is not installed"),
    -7: ("VK_ERROR_EXTENSION_NOT_PRESENT", "the device does not have an extension that was asked for"),
    -8: ("VK_ERROR_FEATURE_NOT_PRESENT", "the device does not have a feature that was asked for"),
    -9: ("VK_ERROR_INCOMPATIBLE_DRIVER", "no driver of a usable version: install one such as 'mesa-vulkan-drivers'"),
    -10: ("VK_ERROR_TOO_MANY_OBJECTS", "too many objects of this kind: free some"),
    -11: ("VK_ERROR_FORMAT_NOT_SUPPORTED", "the device does not know this format"),
    -13: ("VK_ERROR_UNKNOWN", "the driver does not say why"),
    -1000072003: ("VK_ERROR_INVALID_EXTERNAL_HANDLE", "the handle given for import is none that this driver takes"),
}
_OUT_OF_MEMORY = (-1, -2)
_DEVICE_LOST = -4


class VulkanError(DeviceError):
    """A Vulkan call failed, or something Vulkan needs is missing.

    Attributes
    ----------
    code : int
        The VkResult; 0 if no call was made.
    code_name : str
        Its name, such as ``"VK_ERROR_DEVICE_LOST"``.
    call : str
        The function, such as ``"vkQueueSubmit"``.
    """

    def __init__(self, message: str, *, code: int = 0, code_name: str = "", call: str = "") -> None:
        super().__init__(message)
        self.code, self.code_name, self.call = code, code_name, call


class DeviceLostError(VulkanError):
    """The device stopped working; everything on it must be closed and made anew."""


class OutOfMemoryError(VulkanError, ArenaFullError):
    """The device, its driver or the limit that was set has no room."""


class WaitTimeoutError(VulkanError, TimeoutError):
    """The device was not done in time; it still works on it."""


class MissingFeatureError(VulkanError, NotImplementedError):
    """No loader, driver, layer, extension or feature of this kind; the message says what to install or enable."""


def raise_failure(code: int, call: str, text: str) -> NoReturn:
    """Raise what a VkResult means."""
    name, meaning = _RESULTS.get(code, (f"VkResult {code}", "an unknown result"))
    kind = VulkanError
    if code in _OUT_OF_MEMORY:
        kind = OutOfMemoryError
    elif code == _DEVICE_LOST:
        kind = DeviceLostError
    raise kind(f"{call}: {name}: {text or meaning}", code=code, code_name=name, call=call)


def raise_missing(text: str) -> NoReturn:
    """Raise that something is not there."""
    raise MissingFeatureError(text)
