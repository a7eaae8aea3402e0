from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self

import torch
from typing_extensions import disjoint_base

from . import allocator
from .allocator.arena import Arena
from .background import PendingRun
from .loaded import LoadedProgram
from .memory_plan import MemoryPlan, RunStats
from .state import States

@disjoint_base
class PlannedMethod:
    def __new__(cls, program: LoadedProgram, name: str) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def section(self) -> allocator.plan.Method: ...
    @property
    def arena(self) -> Arena: ...
    @property
    def cache_limit(self) -> int: ...
    @property
    def last_run(self) -> RunStats | None: ...
    @property
    def cached_plans(self) -> int: ...
    @property
    def state(self) -> States: ...
    @property
    def cached_bytes(self) -> int: ...
    def execute(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[torch.Tensor | None] | None = None,
        *,
        wait: Sequence[Any] = (),
        signal: Sequence[Any] = (),
        timeout: float | None = None,
    ) -> list[Any]: ...
    def submit(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[torch.Tensor | None] | None = None,
        *,
        wait: Sequence[Any] = (),
        signal: Sequence[Any] = (),
        timeout: float | None = None,
    ) -> PendingRun: ...
    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]: ...
    def plan_for(
        self,
        shapes: Sequence[Sequence[int] | int] | Mapping[str, Sequence[int] | int],
        told: Mapping[str, int] | None = None,
    ) -> MemoryPlan: ...
    def __reduce__(self) -> NoReturn: ...
    def trim(self) -> None: ...
