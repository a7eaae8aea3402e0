"""What a static plan says, for people and for hosts."""

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["ScratchPlace", "StaticPlan", "StaticPool", "StaticValue"]


@dataclass(frozen=True)
class StaticValue:
    """A piece of memory and what lies in it.

    Attributes
    ----------
    name : str
        Graph node that makes it; bodies of control flow in front, separated by dots.
    memory_id, offset, nbytes : int
        Its pool, and where it lies there, in bytes.
    first, last : int
        Half-open range of positions of the time line from its first to its last use.
    """

    name: str
    memory_id: int
    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class ScratchPlace:
    """Where a delegate finds its scratch during one call: `nbytes` at `offset` of pool `memory_id`."""

    delegate: str
    name: str
    memory_id: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class StaticPool:
    """One pool: the bytes reserved for it, the largest sum of bytes live at one time, how offsets were found."""

    memory_id: int
    nbytes: int
    lower_bound: int
    rule: str
    device: str = "cpu"


@dataclass
class StaticPlan:
    """Places of everything in one method.

    Attributes
    ----------
    pools : list of StaticPool
        By memory id.
    values : list of StaticValue
        By position of their first use.
    scratch : list of ScratchPlace
        What `scratch` of `static_planning_pass` reserved, by call.
    """

    pools: list[StaticPool] = field(default_factory=list)
    values: list[StaticValue] = field(default_factory=list)
    scratch: list[ScratchPlace] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """Bytes of all pools together."""
        return sum(pool.nbytes for pool in self.pools)

    @property
    def lower_bound(self) -> int:
        """Sum of the pools' lower bounds: no plan with these pools can need less."""
        return sum(pool.lower_bound for pool in self.pools)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return asdict(self) | {"peak": self.peak, "lower_bound": self.lower_bound}

    def __repr__(self) -> str:
        return f"StaticPlan({len(self.values)} values, {self.peak:,} bytes, lower bound {self.lower_bound:,})"
