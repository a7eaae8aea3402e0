from typing import Self

from typing_extensions import disjoint_base

from ._binding import ShapeBinder
from .allocator.growing import GrowingBlock
from .allocator.plan import Method

@disjoint_base
class StateKeeper:
    def __new__(cls, section: Method, binder: ShapeBinder, memory: list[GrowingBlock | None]) -> Self: ...
