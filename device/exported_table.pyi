from typing import Any, final

from .allocator import DeviceAllocator

__all__ = ["ExportedTable"]

@final
class ExportedTable:
    allocator: DeviceAllocator
    def __init__(self, allocator: DeviceAllocator) -> None: ...
    @property
    def address(self) -> int: ...
    def capsule(self) -> Any: ...
