from typing import Self

from typing_extensions import disjoint_base

__all__ = ["Region"]

@disjoint_base
class Region:
    def __new__(cls) -> Self: ...
