from typing import Any, Self, final

__all__ = ["Resource"]

@final
class Resource:
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    owner: object
    @classmethod
    def host(cls, address: Any, nbytes: int, *, offset: int = 0, owner: object = None) -> Self: ...
    @classmethod
    def device_pointer(cls, address: Any, nbytes: int, *, offset: int = 0, owner: object = None) -> Self: ...
    @classmethod
    def fd(cls, number: int, nbytes: int, *, offset: int = 0) -> Self: ...
    @classmethod
    def custom(
        cls, kind: int, handle: Any, nbytes: int, *, offset: int = 0, next: Any = 0, owner: object = None
    ) -> Self: ...
    @classmethod
    def vk_buffer(
        cls,
        handle: Any,
        nbytes: int,
        *,
        offset: int = 0,
        usage: int = 0,
        memory: Any = 0,
        memory_offset: int = 0,
        device: Any = 0,
        owner: object = None,
    ) -> Self: ...
    @classmethod
    def vk_image(
        cls,
        handle: Any,
        *,
        width: int,
        height: int,
        depth: int = 1,
        format: int,
        layout: int = 0,
        view: Any = 0,
        device: Any = 0,
        usage: int = 0,
        srgb: bool = False,
        nbytes: int = 0,
        owner: object = None,
    ) -> Self: ...
    def part(self, offset: int, nbytes: int, owner: object = None) -> Self: ...
    @property
    def kind(self) -> int: ...
    @property
    def handle(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def details(self) -> dict[str, int]: ...
