from typing import Self

from typing_extensions import disjoint_base

from ._binding import ShapeBinder
from .allocator.plan import Input, Method

def constant_of(entry: Input) -> int | float | bool | str | None: ...

@disjoint_base
class InputReader:
    def __new__(cls, section: Method, binder: ShapeBinder) -> Self: ...
