from typing import Self

from typing_extensions import disjoint_base

from ._runtime import NativeMethod
from .allocator.plan import Method
from .delegates.contract import ScratchUser

@disjoint_base
class DelegateScratch:
    def __new__(cls, section: Method, native: NativeMethod, found: dict[int, ScratchUser | None]) -> Self: ...
    @property
    def has_foreign(self) -> bool: ...
    @property
    def has_steps(self) -> bool: ...
    def staged(self) -> tuple[str, ...]: ...
    @property
    def has_wishes(self) -> bool: ...
