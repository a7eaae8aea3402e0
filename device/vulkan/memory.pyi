from typing import Any, Self, TypeVar, final

from ..resource import Resource
from .core import DeviceCore, DeviceObject

__all__ = ["Buffer", "Image", "Memory", "external_buffer_features", "host_pointer_types", "known_object"]

_Kind = TypeVar("_Kind", "Buffer", "Image")

def known_object(core: DeviceCore, kind: type[_Kind], handle: int) -> _Kind | None: ...
def host_pointer_types(core: DeviceCore, address: int) -> int: ...
def external_buffer_features(core: DeviceCore, usage: int, handle_type: int) -> int: ...

@final
class Memory(DeviceObject):
    owner: object
    host_visible: bool
    memory_type: int
    export_types: int
    def __new__(
        cls,
        core: DeviceCore,
        nbytes: int,
        memory_type: int,
        *,
        export_types: int = 0,
        import_type: int = 0,
        fd: int = -1,
        host_pointer: int = 0,
        properties: int = 0,
        owner: object = None,
    ) -> Self: ...
    @property
    def handle(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def map(self) -> int: ...
    def flush(self) -> None: ...
    def invalidate(self) -> None: ...
    def export_fd(self, handle_type: int) -> int: ...

@final
class Buffer(DeviceObject):
    nbytes: int
    usage: int
    memory: Any
    memory_offset: int
    adopted: bool
    guard: Any
    def __new__(cls, core: DeviceCore, nbytes: int, usage: int, *, external: int = 0, handle: int = 0) -> Self: ...
    @property
    def handle(self) -> int: ...
    @property
    def requirements(self) -> tuple[int, int, int]: ...
    def bind(self, memory: Memory, offset: int = 0) -> None: ...
    def resource(self, offset: int = 0, nbytes: int | None = None) -> Resource: ...

@final
class Image(DeviceObject):
    width: int
    height: int
    depth: int
    format: int
    usage: int
    layout: int
    memory: Any
    adopted: bool
    def __new__(
        cls,
        core: DeviceCore,
        width: int,
        height: int,
        depth: int,
        format: int,
        usage: int,
        *,
        layout: int = 0,
        handle: int = 0,
    ) -> Self: ...
    @property
    def handle(self) -> int: ...
    @property
    def requirements(self) -> tuple[int, int, int]: ...
    def bind(self, memory: Memory, offset: int = 0) -> None: ...
    @property
    def view(self) -> int: ...
    def resource(self) -> Resource: ...
