from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from typing_extensions import disjoint_base

__all__ = ["OffsetPlanner", "Plan"]

@dataclass(frozen=True)
class Plan:
    offsets: list[int]
    peak: int
    lower_bound: int
    order: list[int]
    rule: str

@disjoint_base
class OffsetPlanner:
    def __new__(
        cls,
        alignment: int = 64,
        *,
        effort: int = 1,
        rules: Sequence[str] = ...,
        budget_ns: int = 0,
        max_nodes: int | None = None,
        thorough: bool = False,
    ) -> Self: ...
    @property
    def alignment(self) -> int: ...
    @property
    def effort(self) -> int: ...
    @property
    def budget_ns(self) -> int: ...
    @property
    def max_nodes(self) -> int: ...
    @property
    def exactly(self) -> bool: ...
    @property
    def thorough(self) -> bool: ...
    @property
    def rules(self) -> int: ...
    @property
    def winner(self) -> int: ...
    @property
    def repaired(self) -> bool: ...
    def find(
        self,
        sizes: Sequence[int],
        first: Sequence[int],
        last: Sequence[int],
        *,
        pinned: Mapping[int, int] | None = None,
        order: Sequence[int] | None = None,
        alignments: Sequence[int] | None = None,
    ) -> Plan: ...
