from collections.abc import Callable
from typing import Self

from typing_extensions import disjoint_base

from .allocator.plan import Method
from .allocator.plan_tables import Binding, Discovery

@disjoint_base
class Equations:
    def __new__(cls, section: Method, place_of: Callable[[Binding | Discovery], int]) -> Self: ...
    def place_name(self, position: int, dim: int) -> str: ...
