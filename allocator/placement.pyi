from typing import Self

from typing_extensions import disjoint_base

from .lifetimes import Lifetimes

__all__ = ["Placement"]

@disjoint_base
class Placement:
    def __new__(cls, lifetimes: Lifetimes, alignment: int) -> Self: ...
