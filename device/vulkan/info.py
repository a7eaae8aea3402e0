"""What Vulkan devices say about themselves, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DeviceInfo", "MemoryHeap", "MemoryType", "Message", "QueueFamily", "packed_version", "version_text"]

_KINDS = ("other", "integrated gpu", "discrete gpu", "virtual gpu", "cpu")
_SEVERITIES = {0x1: "verbose", 0x10: "info", 0x100: "warning", 0x1000: "error"}
DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8  # VkMemoryPropertyFlagBits
GRAPHICS, COMPUTE, TRANSFER = 1, 2, 4  # VkQueueFlagBits


def packed_version(version: tuple[int, ...] | int) -> int:
    """Pack (major, minor, patch) as Vulkan does; numbers are packed already."""
    if isinstance(version, int):
        return version
    major, minor, patch = (*version, 0, 0)[:3]
    return major << 22 | minor << 12 | patch


def version_text(packed: int) -> str:
    """Write a packed version as major.minor.patch."""
    return f"{packed >> 22 & 0x7F}.{packed >> 12 & 0x3FF}.{packed & 0xFFF}"


@dataclass(frozen=True)
class Message:
    """What the validation layer said.

    Attributes
    ----------
    severity
        ``"warning"`` or ``"error"``.
    id
        Name of the rule, such as ``"VUID-vkCmdCopyBuffer-size-00115"``.
    text
        All of it.
    """

    severity: str
    id: str
    text: str

    @classmethod
    def from_core(cls, severity: int, id: str, text: str) -> Message:
        """Read what the wrapper gives."""
        return cls(_SEVERITIES.get(severity, str(severity)), id, text)


@dataclass(frozen=True)
class MemoryHeap:
    """A heap of memory: its bytes, and whether it is the device's own."""

    nbytes: int
    device_local: bool


@dataclass(frozen=True)
class MemoryType:
    """A kind of memory, the heap it lies in, and its VkMemoryPropertyFlags."""

    index: int
    heap: int
    flags: int

    @property
    def device_local(self) -> bool:
        """Fast for the device."""
        return bool(self.flags & DEVICE_LOCAL)

    @property
    def host_visible(self) -> bool:
        """The CPU can map it."""
        return bool(self.flags & HOST_VISIBLE)

    @property
    def host_coherent(self) -> bool:
        """Mapped memory needs no flush."""
        return bool(self.flags & HOST_COHERENT)


@dataclass(frozen=True)
class QueueFamily:
    """Queues that do the same: VkQueueFlags, how many, and valid bits of their time stamps (0: none)."""

    index: int
    flags: int
    count: int
    timestamp_bits: int

    @property
    def compute(self) -> bool:
        """Whether it runs compute shaders; such queues also copy."""
        return bool(self.flags & COMPUTE)

    @property
    def graphics(self) -> bool:
        """Whether it draws; such queues also copy."""
        return bool(self.flags & GRAPHICS)


@dataclass(frozen=True)
class DeviceInfo:
    """A physical device.

    Attributes
    ----------
    name, driver_name, driver_info : str
        As the driver gives them.
    kind : str
        ``"cpu"``, ``"discrete gpu"``, ``"integrated gpu"``, ``"virtual gpu"`` or ``"other"``.
    api_version : str
        Vulkan's version.
    driver_version, vendor, device : int
        The driver's numbers.
    device_uuid, driver_uuid : bytes
        File descriptors of memory go between devices where both are the same.
    cache_uuid : bytes
        Compiled pipelines are kept for devices and drivers where it is the same.
    timestamp_period : float
        Nanoseconds of a tick of time stamps.
    limits : dict
        By Vulkan's names, vectors with X, Y and Z behind them.
    memory_types, memory_heaps, queue_families : tuple
        In Vulkan's order.
    extensions, features : frozenset
        What the device offers; features by Vulkan's names, of those that etarena knows.
    handle : int
        The VkPhysicalDevice; means something with the instance it came from only.
    """

    name: str
    kind: str
    api_version: str
    driver_name: str
    driver_info: str
    driver_version: int
    vendor: int
    device: int
    device_uuid: bytes
    driver_uuid: bytes
    cache_uuid: bytes
    timestamp_period: float
    limits: dict[str, int] = field(hash=False)
    memory_types: tuple[MemoryType, ...]
    memory_heaps: tuple[MemoryHeap, ...]
    queue_families: tuple[QueueFamily, ...]
    extensions: frozenset[str]
    features: frozenset[str]
    handle: int

    @classmethod
    def from_core(cls, handle: int, found: dict[str, Any]) -> DeviceInfo:
        """Read what the wrapper gives."""
        kind = found["kind"]
        return cls(
            **{
                **found,
                "kind": _KINDS[kind] if kind < len(_KINDS) else _KINDS[0],
                "api_version": version_text(found["api_version"]),
                "memory_types": tuple(
                    MemoryType(index, heap, flags) for index, (flags, heap) in enumerate(found["memory_types"])
                ),
                "memory_heaps": tuple(MemoryHeap(nbytes, bool(flags & 1)) for nbytes, flags in found["memory_heaps"]),
                "queue_families": tuple(
                    QueueFamily(index, *numbers) for index, numbers in enumerate(found["queue_families"])
                ),
                "extensions": frozenset(found["extensions"]),
                "features": frozenset(found["features"]),
            },
            handle=handle,
        )

    @property
    def unified(self) -> bool:
        """Whether all of the device's own memory is the CPU's too."""
        return all(kind.host_visible for kind in self.memory_types if kind.device_local)

    def memory_type(self, bits: int, required: int = 0, preferred: int = 0, avoided: int = 0) -> MemoryType | None:
        """Choose a memory type.

        Parameters
        ----------
        bits
            Bit 1 << index for each that will do.
        required, preferred, avoided
            VkMemoryPropertyFlags it must have, should have, should not have.

        Returns
        -------
        MemoryType or None
            The first of the best; None if none will do.
        """
        fitting = [
            kind
            for kind in self.memory_types
            if bits >> kind.index & 1 and kind.flags & required == required and not kind.flags & ~0x1F
        ]
        return max(
            fitting,
            key=lambda kind: (kind.flags & preferred).bit_count() - (kind.flags & avoided).bit_count(),
            default=None,
        )
