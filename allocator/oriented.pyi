from collections.abc import Sequence
from typing import Self

from typing_extensions import disjoint_base

from .planner import OffsetPlanner, Plan

__all__ = ["OrientedPlanner"]

@disjoint_base
class OrientedPlanner:
    def __new__(cls, planner: OffsetPlanner) -> Self: ...
    @property
    def planner(self) -> OffsetPlanner: ...
    @property
    def count(self) -> int: ...
    @property
    def replayed(self) -> bool: ...
    def find(
        self, sizes: Sequence[int], first: Sequence[int], last: Sequence[int], *, order: Sequence[int] = ()
    ) -> Plan: ...
    def replays(self, sizes: Sequence[int]) -> list[Plan]: ...
