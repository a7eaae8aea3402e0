from typing import Self

from typing_extensions import disjoint_base

from ._binding import ShapeBinder
from .allocator.arena import Arena
from .allocator.plan import Method

@disjoint_base
class OutputWriter:
    def __new__(cls, section: Method, binder: ShapeBinder, arena: Arena) -> Self: ...
