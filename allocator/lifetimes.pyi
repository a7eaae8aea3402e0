from typing import Self

from typing_extensions import disjoint_base

__all__ = ["Lifetimes"]

@disjoint_base
class Lifetimes:
    def __new__(cls) -> Self: ...
