from typing import Self

from typing_extensions import disjoint_base

__all__ = ["DEBUG", "ArenaCore", "arena_at"]

DEBUG: bool

@disjoint_base
class ArenaCore:
    def __new__(
        cls,
        reserve: int = ...,
        *,
        activation_reserve: int | None = None,
        name: str = "arena",
        huge_pages: bool = False,
        poison: bool | None = None,
        guard: bool = False,
        trace: int = 0,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def reserve(self) -> int: ...
    @property
    def activation_reserve(self) -> int: ...
    @property
    def huge_pages(self) -> bool: ...
    @property
    def poison(self) -> bool: ...
    @property
    def guard(self) -> bool: ...

def arena_at(address: int) -> ArenaCore | None: ...
