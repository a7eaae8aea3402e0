from typing import Self

from typing_extensions import disjoint_base

__all__ = ["EventRing"]

@disjoint_base
class EventRing:
    def __new__(cls, capacity: int) -> Self: ...
