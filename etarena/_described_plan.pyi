from ._binding import BoundShape, ShapeBinder
from .allocator.plan import Method
from .memory_plan import MemoryPlan

def described_plan(
    name: str,
    shapes: tuple[int | tuple[int, ...], ...],
    section: Method,
    labels: tuple[str, ...],
    binder: ShapeBinder,
    bound: BoundShape,
    state_bytes: int,
) -> MemoryPlan: ...
