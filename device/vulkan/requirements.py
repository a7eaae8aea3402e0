"""Which features and extensions etarena asks for, and what for: a device without one works, but for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import MissingFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["EXTENSIONS", "FEATURES", "HOST_IMPORT", "MEMORY_FD", "TIMELINE", "TIMELINE_EXTENSION", "Enabled"]

HOST_IMPORT = "VK_EXT_external_memory_host"
MEMORY_FD = "VK_KHR_external_memory_fd"
TIMELINE = "timelineSemaphore"
TIMELINE_EXTENSION = "VK_KHR_timeline_semaphore"

# Enabled by Device.create where the device has them.
EXTENSIONS = frozenset(
    {
        HOST_IMPORT,
        MEMORY_FD,
        "VK_EXT_external_memory_dma_buf",
        "VK_EXT_memory_budget",
        "VK_EXT_subgroup_size_control",
        "VK_KHR_external_semaphore_fd",
        "VK_KHR_push_descriptor",
    }
)
FEATURES = frozenset(
    {
        TIMELINE,
        "hostQueryReset",
        "robustBufferAccess",
        "scalarBlockLayout",
        "shaderFloat16",
        "shaderInt16",
        "shaderInt64",
        "shaderInt8",
        "shaderStorageImageExtendedFormats",
        "shaderStorageImageReadWithoutFormat",
        "shaderStorageImageWriteWithoutFormat",
        "storageBuffer16BitAccess",
        "storageBuffer8BitAccess",
        "uniformAndStorageBuffer16BitAccess",
        "uniformAndStorageBuffer8BitAccess",
        "vulkanMemoryModel",
        "vulkanMemoryModelDeviceScope",
    }
)


class Enabled:
    """Extensions and features that a VkDevice was made with.

    Parameters
    ----------
    extensions, features
        Their names.
    adopted
        The application made the device.
    """

    def __init__(self, extensions: Iterable[str], features: Iterable[str], *, adopted: bool) -> None:
        self.extensions, self.features = frozenset(extensions), frozenset(features)
        self.adopted = adopted

    def require_extension(self, name: str, purpose: str) -> None:
        """Refuse what needs an extension that is not enabled."""
        if name not in self.extensions:
            raise MissingFeatureError(f"{purpose} needs the extension {name}, {self._way_out('extensions', name)}")

    def require_feature(self, name: str, purpose: str) -> None:
        """Refuse what needs a feature that is not enabled."""
        if name not in self.features:
            raise MissingFeatureError(f"{purpose} needs the feature {name}, {self._way_out('features', name)}")

    def _way_out(self, kind: str, name: str) -> str:
        if not self.adopted:
            return "which this device does not have"
        return (
            "which the application is not known to have enabled: enable it when the VkDevice is made, and tell "
            f"Device.from_handles with {kind}=[..., {name!r}]"
        )
