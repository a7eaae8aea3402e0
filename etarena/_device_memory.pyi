from typing_extensions import disjoint_base

from .device.copies import Copy

@disjoint_base
class DeviceMemory:
    @property
    def is_used(self) -> bool: ...
    @property
    def copies(self) -> list[Copy]: ...
