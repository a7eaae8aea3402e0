from collections.abc import Mapping, Sequence
from typing import Self

from typing_extensions import disjoint_base

__all__ = ["FOUND", "INFEASIBLE", "STOPPED", "UNLIMITED", "ExactSearch"]

FOUND: int
INFEASIBLE: int
STOPPED: int
UNLIMITED: int

@disjoint_base
class ExactSearch:
    def __new__(cls) -> Self: ...
    def load(
        self,
        sizes: Sequence[int],
        first: Sequence[int],
        last: Sequence[int],
        alignment: int = 64,
        *,
        pinned: Mapping[int, int] | None = None,
        leader: Sequence[int] | None = None,
        alignments: Sequence[int] | None = None,
    ) -> bool: ...
    def within(self, capacity: int, max_nodes: int, timeout_ns: int) -> tuple[int, list[int]]: ...
    def lower(self, bound: int, peak: int, max_nodes: int, timeout_ns: int) -> tuple[int, int, list[int]]: ...
    def fit(self, order: Sequence[int]) -> tuple[int, list[int]]: ...
    def cancel(self) -> None: ...
