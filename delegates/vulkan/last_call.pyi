from typing_extensions import disjoint_base

from ...allocator.arena import Arena
from ...device.vulkan.commands import Commands
from ...device.vulkan.device import Device
from ..repeating import Repeating

__all__ = ["LastCall"]

@disjoint_base
class LastCall(Repeating):
    def take_known(self) -> bool: ...
    def remember(self, device: Device, commands: Commands, arena: Arena) -> None: ...
    def forget(self) -> None: ...
