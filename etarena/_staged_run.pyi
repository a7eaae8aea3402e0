from typing import Self

from typing_extensions import disjoint_base

from ._binding import ShapeBinder
from ._outputs import OutputWriter
from ._runtime import NativeMethod
from .allocator.arena import Arena
from .allocator.errors import ShapeError

@disjoint_base
class StagedRun:
    def __new__(
        cls,
        binder: ShapeBinder,
        native: NativeMethod,
        writer: OutputWriter,
        arena: Arena,
        labels: tuple[str, ...],
        cache_limit: int,
    ) -> Self: ...
    def uneven(self, position: int, number: int) -> ShapeError: ...
