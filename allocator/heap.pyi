from typing import Self

from typing_extensions import disjoint_base

__all__ = ["Heap"]

@disjoint_base
class Heap:
    def __new__(cls, limit: int, origin: int, granule: int = 64) -> Self: ...
