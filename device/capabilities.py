"""What a device's memory can do."""

from __future__ import annotations

from dataclasses import dataclass

from ..allocator.errors import DeviceError
from .kinds import kind_name

__all__ = ["Capabilities"]

FLAGS = {"host_visible": 1, "host_coherent": 2, "unified": 4, "exports_fd": 8}


@dataclass(frozen=True)
class Capabilities:
    """What a device's memory can do; sizes in bytes.

    Attributes
    ----------
    alignment
        Of every allocation, a power of two.
    max_allocation
        Of the largest single allocation; 0: no limit known.
    total_bytes
        Of the device's memory; 0: unknown.
    row_pitch
        Rows of images and pitched buffers begin at multiples of this; 0: dense.
    import_alignment
        Of host memory that the device can import, address and size; 0: it cannot.
    import_kinds
        `ResourceKind` of what the allocator can copy to and from though it did not make it.
    queue_families
        How many; 0: no queues.
    host_visible
        The CPU can map it. Such memory is taken from the allocator for each tensor; other memory is taken in blocks
        that an `OffsetHeap` divides.
    host_coherent
        Mapped memory needs no flush.
    unified
        The device's memory is the CPU's.
    exports_fd
        Memory can be exported as a file descriptor.
    """

    alignment: int = 64
    max_allocation: int = 0
    total_bytes: int = 0
    row_pitch: int = 0
    import_alignment: int = 0
    import_kinds: frozenset[int] = frozenset()
    queue_families: int = 0
    host_visible: bool = False
    host_coherent: bool = False
    unified: bool = False
    exports_fd: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "import_kinds", frozenset(map(int, self.import_kinds)))
        if not 0 < self.alignment <= 1 << 30 or self.alignment & (self.alignment - 1):
            raise DeviceError(f"capabilities: alignment {self.alignment} is no power of two up to 2**30")
        for name in ("max_allocation", "total_bytes", "row_pitch", "import_alignment", "queue_families"):
            value = getattr(self, name)
            if not 0 <= value < 1 << 63:
                raise DeviceError(f"capabilities: {name}={value} lies outside 0 to 2**63")
        for kind in self.import_kinds:
            if not 0 < kind < 64:
                raise DeviceError(f"capabilities: {kind_name(kind)} cannot be listed in import_kinds, which ends at 63")

    @property
    def flags(self) -> int:
        """The bits of `etarena_capabilities.flags`."""
        return sum(bit for name, bit in FLAGS.items() if getattr(self, name))
