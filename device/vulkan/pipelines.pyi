from collections.abc import Mapping
from typing import Self, final

from .core import DeviceCore, DeviceObject

__all__ = ["Pipeline", "PipelineCache", "constant_bits"]

def constant_bits(constants: Mapping[int, int | float | bool]) -> tuple[tuple[int, int], ...]: ...

@final
class PipelineCache(DeviceObject):
    def __new__(cls, core: DeviceCore, data: bytes = b"") -> Self: ...
    @property
    def handle(self) -> int: ...
    def data(self) -> bytes: ...

@final
class Pipeline(DeviceObject):
    bindings: str
    push_bytes: int
    workgroup: tuple[int, int, int]
    def __new__(
        cls,
        core: DeviceCore,
        code: bytes,
        *,
        bindings: str,
        push_bytes: int,
        constants: Mapping[int, int | float | bool] | None = None,
        cache: PipelineCache | None = None,
    ) -> Self: ...
    @property
    def handle(self) -> int: ...
