from typing import Self

from typing_extensions import disjoint_base

from ._binding import ShapeBinder

@disjoint_base
class StagePlanner:
    def __new__(cls, binder: ShapeBinder) -> Self: ...
    def check_range(self, position: int, number: int) -> None: ...
    def origin_of(self, position: int) -> str: ...
